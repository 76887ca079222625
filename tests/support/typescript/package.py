"""The edge in TypeScript for tests: built once, run by Node."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

EDGE = Path(__file__).resolve().parents[3] / "edge" / "typescript"
REQUIRED = "CALMSTREAM_REQUIRE_NODE"
LEAST_NODE = 20
TIMEOUT = 600.0
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")


def required() -> bool:
    """Return whether a missing Node or Chromium is a failure."""
    return os.environ.get(REQUIRED, "") not in {"", "0"}


def lacking(why: str) -> None:
    """Skip the test, or fail it where Node and Chromium are demanded."""
    if required():
        pytest.fail(f"{REQUIRED} is set, but {why}")
    pytest.skip(why)


def built() -> Path:
    """Build package and tests where the sources changed; return the directory."""
    _check_node()
    with _alone():
        lock = hashlib.sha256((EDGE / "package-lock.json").read_bytes()).hexdigest()
        if _changed(EDGE / "node_modules" / ".lock-digest", lock):
            npm("ci")
            (EDGE / "node_modules" / ".lock-digest").write_text(lock)
        sources = _digest()
        if _changed(EDGE / "build" / ".sources", sources):
            run("build.mjs", "--tests")
            (EDGE / "build" / ".sources").write_text(sources)
    return EDGE / "build"


def run(*arguments: str, timeout: float = TIMEOUT) -> str:
    """Run Node in the package's directory; return what it printed."""
    return _run(["node", "--no-warnings", *arguments], timeout)


def npm(*arguments: str) -> str:
    """Run npm in the package's directory."""
    return _run(["npm", *arguments], TIMEOUT)


def answers(tool: str, lines: Sequence[str], timeout: float = TIMEOUT) -> list[str]:
    """Give a tool of ``test/tools`` its lines; return its lines."""
    program = built() / "tools" / f"{tool}.mjs"
    with tempfile.TemporaryDirectory() as folder:
        asked, answered = Path(folder, "asked"), Path(folder, "answered")
        asked.write_text("".join(f"{line}\n" for line in lines))
        run(str(program), str(asked), str(answered), timeout=timeout)
        return answered.read_text().splitlines()


def chromium() -> str:
    """Return the path of a Chromium."""
    for name in CHROMIUM:
        if found := shutil.which(name):
            return found
    lacking("there is no Chromium: apt-get install chromium")
    raise AssertionError


def _run(command: list[str], timeout: float) -> str:
    done = subprocess.run(
        command, cwd=EDGE, capture_output=True, text=True, timeout=timeout, check=False
    )
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-6000:]}{done.stderr[-3000:]}"
    return done.stdout


def _check_node() -> None:
    if not shutil.which("node") or not shutil.which("npm"):
        lacking("there is no Node: the edge in TypeScript was not tested")
    version = subprocess.run(
        ["node", "--version"], capture_output=True, text=True, timeout=60, check=True
    ).stdout
    if int(version.lstrip("v").split(".")[0]) < LEAST_NODE:
        lacking(f"Node {version.strip()} is older than {LEAST_NODE}")


@contextmanager
def _alone() -> Iterator[None]:
    with Path(tempfile.gettempdir(), f"calmstream-edge-{_name()}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _name() -> str:
    return hashlib.sha256(str(EDGE).encode()).hexdigest()[:16]


def _changed(stamp: Path, digest: str) -> bool:
    return not stamp.exists() or stamp.read_text() != digest


def _digest() -> str:
    """Digest of everything that a build reads."""
    whole = hashlib.sha256()
    for path in sorted(EDGE.rglob("*")):
        if path.is_file() and not {"node_modules", "build", "dist"} & set(
            path.relative_to(EDGE).parts
        ):
            whole.update(f"{path.relative_to(EDGE)}\0".encode() + path.read_bytes())
    return whole.hexdigest()
