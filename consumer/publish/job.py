"""Estimates and tests of change run on other threads.

They can take long. On the publisher's own thread they would delay the polls, and the publisher
would lose its membership of the consumer group.
"""

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
    """Run something on a thread of its own, which does not keep the process alive."""
    threading.Thread(target=run, name="estimate", daemon=True).start()


@dataclass(frozen=True, slots=True)
class EstimateRunner:
    """Where estimates and tests of change run.

    Attributes:
        wait_seconds: maximum time for which a publisher waits for an estimate in one step.
        start_tests: as ``start``, for tests of change; no estimate may wait for them.
    """

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
        """Block for at most this many seconds; return whether the call has ended."""
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
