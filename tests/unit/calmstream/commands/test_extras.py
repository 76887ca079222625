from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable

import pytest

from calmstream.cli import COMMANDS
from tests.support.wheels import ROOT, service_modules
from tests.unit.calmstream.conftest import python

SERVICE = service_modules()
FREE = {"device", "health", "keys", "sign", "verify"}  # commands that need nothing of the service

# Stands before every other finder, as if the packages were not there.
BLOCKED = """
import runpy, sys

blocked = sys.argv[1].split(",")

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name in blocked or name.partition(".")[0] in blocked:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocker())
sys.argv[:2] = ["calmstream"]
runpy.run_module("calmstream", run_name="__main__", alter_sys=True)
"""


def run(blocked: Iterable[str], *words: str) -> subprocess.CompletedProcess[str]:
    return python("-c", BLOCKED, ",".join(blocked), *words, cwd=ROOT)


def refused(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    text = done.stderr.strip()
    assert "\n" not in text
    assert "Traceback" not in text
    assert "internal error" not in text
    return text


@pytest.mark.parametrize("command", sorted(set(COMMANDS) - FREE)[::6])
def test_a_command_names_the_extra_that_it_needs(command: str) -> None:
    text = refused(run(SERVICE, command, "--plan", "plan.json"))
    assert re.fullmatch(
        rf"calmstream: calmstream {command} needs the package \w+, which is not installed: "
        r"pip install 'calmstream\[service\]'",
        text,
    )


def test_a_device_needs_no_extra() -> None:
    program = BLOCKED.rpartition("runpy.run_module")[0]
    program += "from calmstream import Reporter, read_device_plan, subscribe"
    done = python("-c", program, ",".join(SERVICE), cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "")
