"""Store the results of a study in one file that several processes may write.

A process claims a *cell* before it measures it, so none is measured twice. A lock on a second file,
which stores the claims, serialises claims and writes; a write replaces the file atomically.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import orjson

Result = dict[str, Any]  # the result of a cell, as it is written in JSON


class Study:
    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> dict[str, Result]:
        """Return all results by name, in the order of names; cost: one read of the file."""
        if not self.path.exists():
            return {}
        entries = (orjson.loads(line) for line in self.path.read_bytes().splitlines())
        return {entry["name"]: entry["result"] for entry in entries}

    def put(self, name: str, result: Result) -> None:
        """Add a cell's result, or replace it; release the claim on the cell, if there is one."""
        with self._locked() as (file, claims):
            results = self.read() | {name: result}
            lines = [
                orjson.dumps({"name": n, "result": results[n]}) + b"\n" for n in sorted(results)
            ]
            partial = self.path.with_suffix(".partial")
            partial.write_bytes(b"".join(lines))
            partial.rename(self.path)
            claims.pop(name, None)
            _write(file, claims)

    def claim(self, name: str) -> bool:
        """Reserve a cell for this process."""
        with self._locked() as (file, claims):
            if name in claims or name in self.read():
                return False
            _write(file, claims | {name: os.getpid()})
            return True

    def release(self, name: str) -> None:
        with self._locked() as (file, claims):
            claims.pop(name, None)
            _write(file, claims)

    @contextmanager
    def _locked(self) -> Iterator[tuple[IO[bytes], dict[str, int]]]:
        """Hold the lock; yield its file and the claims of running processes."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.with_suffix(".lock").open("a+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            text = file.read()
            claims: dict[str, int] = orjson.loads(text) if text else {}
            yield file, {name: pid for name, pid in claims.items() if _alive(pid)}


def _write(file: IO[bytes], claims: dict[str, int]) -> None:
    file.truncate(0)
    file.write(orjson.dumps(claims))
    file.flush()


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it runs as another user
        pass
    return True
