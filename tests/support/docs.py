"""Read the marked blocks of the documentation as scripts that tests can run."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from tests.support.runs import ran

ROOT = Path(__file__).resolve().parents[2]
_BLOCK = re.compile(r"<!-- (test|golden): ([a-z0-9 ]+) -->\n```[a-z]*\n(.*?)```", re.DOTALL)


def blocks(page: Path, kind: str, name: str) -> list[str]:
    """Return the fenced blocks that follow ``<!-- kind: name -->``, in order."""
    return [text for k, n, text in _BLOCK.findall(page.read_text()) if (k, n) == (kind, name)]


def commands(page: Path) -> list[str]:
    """Return every calmstream command of a page's shell blocks, continuation lines joined."""
    shell = re.findall(r"```(?:sh|console)\n(.*?)```", page.read_text(), re.DOTALL)
    joined = "\n".join(shell).replace("\\\n", " ")
    return [line for line in joined.splitlines() if line.startswith("calmstream ")]


def shims(directory: Path) -> Path:
    """Make a folder with the programs ``python`` and ``calmstream``; return it."""
    made = directory / ".bin"
    made.mkdir()
    python = shlex.quote(sys.executable)
    for name, line in {"python": python, "calmstream": f"{python} -m calmstream"}.items():
        shim = made / name
        shim.write_text(f'#!/bin/sh\nexec {line} "$@"\n')
        shim.chmod(0o755)
    return made


def run_script(
    parts: list[str], directory: Path, seconds: float, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run blocks as one shell script in a directory that looks like the checkout.

    What the script leaves in the background gets SIGTERM at its end and is waited for.
    """
    for name in ("calmstream", "deploy", "examples"):
        (directory / name).symlink_to(ROOT / name)
    bin_directory = shims(directory)
    script = "\n".join(
        ["set -euo pipefail", "trap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT", *parts]
    )
    places = {"PATH": f"{bin_directory}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    own = os.environ | places | environment
    return ran("bash", "-c", script, code=None, seconds=seconds, cwd=directory, env=own)
