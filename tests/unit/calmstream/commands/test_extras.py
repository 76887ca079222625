from __future__ import annotations

import re

import pytest

from calmstream.cli import COMMANDS
from tests.support.runs import python
from tests.support.wheels import ROOT, service_modules

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


@pytest.mark.parametrize("command", sorted(set(COMMANDS) - FREE)[::6])
def test_a_command_names_the_extra_that_it_needs(command: str) -> None:
    words = (",".join(SERVICE), command, "--plan", "plan.json")
    done = python("-c", BLOCKED, *words, code=2, cwd=ROOT)
    assert re.fullmatch(
        rf"calmstream: calmstream {command} needs the package \w+, which is not installed: "
        r"pip install 'calmstream\[service\]'\n",
        done.stderr,
    )
    assert not done.stdout


def test_a_device_needs_no_extra() -> None:
    program = BLOCKED.rpartition("runpy.run_module")[0]
    program += "from calmstream import Reporter, read_device_plan, subscribe"
    assert not python("-c", program, ",".join(SERVICE), cwd=ROOT).stderr
