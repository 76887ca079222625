"""Run tests in a copy of the tree: `Copy` starts pytest, which loads this file as a plugin."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import Any

TASK = "MUTANTS_TASK"
"""Environment variable with the path of the file that describes what a session must do.

Its name must not begin as the settings do: every command refuses a setting that it does not know.
"""

MEMORY_BYTES = 8 << 30
"""Limit of a session's address space, because a mutant may ask for any amount of memory."""


def pytest_configure(config: Any) -> None:
    """Set up a session that :meth:`Copy.session` starts; pytest calls it."""
    from hypothesis import Phase, settings

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    phases = (Phase.explicit, Phase.generate)  # no time is spent on making examples small
    settings.register_profile(
        "mutants", database=None, deadline=None, derandomize=True, phases=phases
    )
    settings.load_profile("mutants")
    config.pluginmanager.register(Session(json.loads(Path(os.environ[TASK]).read_text())))


class Session:
    """The plugin: ``tests`` in order, or all with the lines of ``files``; writes ``out``."""

    def __init__(self, task: Any) -> None:
        self._task = task
        self._outcomes: dict[str, list[str]] = {"passed": [], "failed": [], "skipped": []}
        self._seconds: dict[str, float] = defaultdict(float)
        self._cover: Any = None
        if task["files"]:
            import coverage

            paths = [str(Path.cwd() / file) for file in task["files"]]
            self._cover = coverage.Coverage(data_file=None, config_file=False, include=paths)
            self._cover.start()

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        if self._task["tests"]:
            order = {test: i for i, test in enumerate(self._task["tests"])}
            items[:] = [item for item in items if item.nodeid in order]
            items.sort(key=lambda item: order[item.nodeid])

    def pytest_collectreport(self, report: Any) -> None:
        self._outcomes[report.outcome].append(report.nodeid)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        if self._cover:
            self._cover.switch_context(nodeid)

    def pytest_runtest_logreport(self, report: Any) -> None:
        self._seconds[report.nodeid] += report.duration
        self._outcomes[report.outcome].append(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        """Write the outcomes; in ``lines`` tests are numbers, and -1 means an import."""
        number = {"": -1} | {test: i for i, test in enumerate(self._seconds)}
        lines = {}
        if self._cover:
            self._cover.stop()
            data = self._cover.get_data()
            for file in self._task["files"]:
                found = data.contexts_by_lineno(str(Path.cwd() / file)).items()
                lines[file] = {line: [number[t] for t in ts if t in number] for line, ts in found}
        failed, skipped = self._outcomes["failed"], self._outcomes["skipped"]
        noted = {"failed": failed, "skipped": skipped, "seconds": self._seconds, "lines": lines}
        Path(self._task["out"]).write_text(json.dumps(noted))


class Copy:
    """A copy of the tree, in which tests run and sources change."""

    def __init__(self, root: Path, folder: Path) -> None:
        self._folder, self.tree = folder, folder / "tree"
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(command, cwd=root, capture_output=True, check=True, text=True).stdout
        for name in filter(None, names.split("\0")):
            (self.tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, self.tree / name)
        # Tests read the shared data beside the repository.
        if (root.parent / "shared").exists():
            (folder / "shared").symlink_to(root.parent / "shared")
        hashed = hashlib.sha256()
        tool = self.tree / "benchmarks" / "mutation"
        for path in sorted(self.tree.rglob("*.py")):
            if tool in path.parents:
                continue  # this tool does not change which lines the tests execute
            hashed.update(str(path.relative_to(self.tree)).encode() + path.read_bytes())
        self.digest = hashed.hexdigest()

    def put(self, file: str, source: bytes) -> None:
        path = self.tree / file
        path.write_bytes(source)
        for compiled in path.parent.glob(f"__pycache__/{path.stem}.*"):
            compiled.unlink()

    def session(self, limit: float, tests: list[str], files: list[str]) -> tuple[int | None, Any]:
        task, out = self._folder / "task.json", self._folder / "out.json"
        task.write_text(json.dumps({"tests": tests, "files": files, "out": str(out)}))
        out.write_text(json.dumps({"failed": []}))
        command = [sys.executable, "-m", "pytest", "-q", "-p", "benchmarks.mutation.session", "-m"]
        command += [
            "not kafka and not slow",
            "-p",
            "no:cacheprovider",
            f"--basetemp={self._folder / 'tmp'}",
        ]
        command += ["-x", "--timeout=30"] if tests else ["--timeout=600"]
        command += dict.fromkeys(test.split("::")[0] for test in tests)
        one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        env = {**os.environ, **one, "PYTHONPATH": str(self.tree), TASK: str(task)}
        with (self._folder / "log").open("wb") as log:
            child = subprocess.Popen(
                command, cwd=self.tree, env=env, stdout=log, stderr=log, start_new_session=True
            )
            code: int | None = None
            with suppress(subprocess.TimeoutExpired):
                code = child.wait(limit)
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        return code, json.loads(out.read_text())
