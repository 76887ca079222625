"""Runs estimates and tests of change on other threads, because they would delay the polls."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")

Start = Callable[[Callable[[], None]], None]
"""Runs a function on another thread, now or later."""


def on_a_thread(run: Callable[[], None]) -> None:
    threading.Thread(target=run, name="estimate", daemon=True).start()


@dataclass(frozen=True, slots=True)
class EstimateRunner:
    """Where estimates, and tests of change, run; a step waits ``wait_seconds`` for an estimate."""

    start: Start = on_a_thread
    wait_seconds: float = 1.0
    start_tests: Start = on_a_thread


class Job(Generic[T]):
    """A call on another thread, which uses only what it is given, so that it can be dropped."""

    def __init__(self, call: Callable[[], T], start: Start) -> None:
        self.seconds = 0.0
        self._call = call
        self._done = threading.Event()
        self._result: T
        self._error: Exception | None = None
        start(self._run)

    def wait(self, seconds: float = 0.0) -> bool:
        return self._done.wait(seconds)

    def result(self) -> T:
        """Return what the call has returned, or raise its error, once it has ended."""
        if self._error is not None:
            raise self._error
        return self._result

    def _run(self) -> None:
        began = time.monotonic()
        try:
            self._result = self._call()
        except Exception as error:  # noqa: BLE001 - ``result`` raises it again
            self._error = error
        self.seconds = time.monotonic() - began
        self._done.set()
