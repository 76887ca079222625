"""The present time of a gateway: it never goes back, not even over a restart."""

from __future__ import annotations

import threading
from pathlib import Path

import orjson

from calmstream.common.clock import Clock
from calmstream.common.errors import FatalError
from calmstream.producer.gateway.durable.files import Files

NAME = "clock.json"


class ClockMark:
    """The latest time that the gateway has seen; durable where :meth:`keep` returned.

    :meth:`present` is safe from any thread.
    """

    def __init__(self, files: Files, directory: Path, clock: Clock) -> None:
        self._files = files
        self._path = directory / NAME
        self._clock = clock
        self._lock = threading.Lock()
        self._stored = self._latest = self._read()

    def present(self) -> int:
        """Return milliseconds since the epoch: the clock's, or the mark where that is later."""
        with self._lock:
            self._latest = max(self._latest, self._clock.now_ms())
            return self._latest

    def behind(self) -> float:
        """Return by how many seconds the clock is behind the mark, at least 0."""
        return max(self._latest - self._clock.now_ms(), 0) / 1000

    def keep(self) -> None:
        """Make the present time durable."""
        present = self.present()
        if present > self._stored:
            self._files.write(self._path, orjson.dumps({"v": 1, "milliseconds": present}))
            self._stored = present

    def _read(self) -> int:
        raw = self._files.read(self._path)
        if raw is None:
            return 0
        try:
            found = orjson.loads(raw)["milliseconds"]
        except (orjson.JSONDecodeError, KeyError, TypeError):
            found = None
        if type(found) is not int:
            raise FatalError(f"{self._path} is not the clock of a spool; restore it")
        return found
