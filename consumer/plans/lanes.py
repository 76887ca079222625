"""Few threads on which the workers of many plans take turns."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue

from calmstream.common.clock import Clock
from calmstream.consumer.runtime.threads import begin

_QUICK_SECONDS = 1.0
"""A call that takes longer no longer counts as quick: the next one need not wait for it."""


class Lanes:
    """Runs at most ``quick`` quick calls at once, and ``most`` calls with those that take long.

    So a plan whose topics do not answer holds up nobody. Ask :meth:`free` before :meth:`start`.
    """

    def __init__(self, clock: Clock, *, quick: int = 16, most: int = 48) -> None:
        self._clock = clock
        self._quick = quick
        self._most = most
        self._calls: SimpleQueue[Callable[[], None]] = SimpleQueue()
        # When each began, of those that had not ended at the last look.
        self._began: dict[Future[bool], float] = {}
        self._threads = 0

    def free(self) -> bool:
        self._forget_ended()
        return len(self._began) < self._most and self._number_quick() < self._quick

    def start(self, call: Callable[[], bool]) -> Future[bool]:
        """Begin a call, on a thread that waits or on a new one."""
        self._forget_ended()
        future = begin(call, self._calls.put)
        self._began[future] = self._clock.monotonic()
        if len(self._began) > self._threads:
            self._threads += 1
            threading.Thread(target=self._work, name="plans", daemon=True).start()
        return future

    def busy(self) -> bool:
        self._forget_ended()
        return self._number_quick() > 0

    def _forget_ended(self) -> None:
        self._began = {call: began for call, began in self._began.items() if not call.done()}

    def _number_quick(self) -> int:
        since = self._clock.monotonic() - _QUICK_SECONDS
        return sum(began >= since for began in self._began.values())

    def _work(self) -> None:
        while True:
            self._calls.get()()
