"""Projects in TypeScript for tests, the edge foremost: built once, run by Node."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.runs import ran

_ROOT = Path(__file__).resolve().parents[3]
EDGE = _ROOT / "edge" / "typescript"
REQUIRED = "CALMSTREAM_REQUIRE_NODE"
LEAST_NODE = 20
TIMEOUT = 600.0
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")


def required() -> bool:
    return os.environ.get(REQUIRED, "") not in {"", "0"}


def lacking(why: str) -> None:
    if required():
        pytest.fail(f"{REQUIRED} is set, but {why}")
    pytest.skip(why)


@dataclass(frozen=True)
class Project:
    """A folder with ``package-lock.json`` and ``build.mjs``, which writes tests into ``build``."""

    folder: Path  # of the project
    build_options: tuple[str, ...] = ("--tests",)  # of ``build.mjs``

    def built(self) -> Path:
        _check_node()
        with self._alone():
            self._install()
            sources = self._digest()
            if _changed(self.folder / "build" / ".sources", sources):
                self.run("build.mjs", *self.build_options)
                (self.folder / "build" / ".sources").write_text(sources)
        return self.folder / "build"

    def run(self, *arguments: str, timeout: float = TIMEOUT, **variables: str) -> str:
        own = {**os.environ, **variables}
        node = ["node", "--no-warnings", *arguments]
        return ran(*node, seconds=timeout, cwd=self.folder, env=own).stdout

    def npm(self, *arguments: str) -> str:
        return ran("npm", *arguments, seconds=TIMEOUT, cwd=self.folder).stdout

    def _install(self) -> None:
        lock = hashlib.sha256((self.folder / "package-lock.json").read_bytes()).hexdigest()
        if _changed(self.folder / "node_modules" / ".lock-digest", lock):
            self.npm("ci")
            (self.folder / "node_modules" / ".lock-digest").write_text(lock)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        name = hashlib.sha256(str(self.folder).encode()).hexdigest()[:16]
        with Path(tempfile.gettempdir(), f"calmstream-typescript-{name}.lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _digest(self) -> str:
        whole = hashlib.sha256()
        for path in sorted(self.folder.rglob("*")):
            name = path.relative_to(self.folder)
            if path.is_file() and not {"node_modules", "build", "dist"} & set(name.parts):
                whole.update(f"{name}\0".encode() + path.read_bytes())
        return whole.hexdigest()


PAGE = Project(_ROOT / "consumer" / "serve" / "page", ("--tests", "--out=build/assets"))
"""The page of ``calmstream serve``; its committed files are left alone."""

_EDGE = Project(EDGE)
built, run, npm = _EDGE.built, _EDGE.run, _EDGE.npm


def answers(
    tool: str, lines: Sequence[str], timeout: float = TIMEOUT, words: Sequence[str] = ()
) -> list[str]:
    """Give a tool of ``test/tools`` its lines, and words; return its lines."""
    program = built() / "tools" / f"{tool}.mjs"
    with tempfile.TemporaryDirectory() as folder:
        asked, answered = Path(folder, "asked"), Path(folder, "answered")
        asked.write_text("".join(f"{line}\n" for line in lines))
        run(str(program), str(asked), str(answered), *words, timeout=timeout)
        return answered.read_text().splitlines()


def chromium() -> str:
    for name in CHROMIUM:
        if found := shutil.which(name):
            return found
    lacking("there is no Chromium: apt-get install chromium")
    raise AssertionError


def _check_node() -> None:
    if not shutil.which("node") or not shutil.which("npm"):
        lacking("there is no Node: nothing in TypeScript was tested")
    version = ran("node", "--version").stdout
    if int(version.lstrip("v").split(".")[0]) < LEAST_NODE:
        lacking(f"Node {version.strip()} is older than {LEAST_NODE}")


def _changed(stamp: Path, digest: str) -> bool:
    return not stamp.exists() or stamp.read_text() != digest
