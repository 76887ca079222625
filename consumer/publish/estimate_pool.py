"""Runs the estimates of many plans on few threads, so that no plan waits for the heavy ones."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Protocol

from calmstream.common.clock import Clock

HEAVY_SECONDS = 1.0
"""A plan whose last estimate took longer is *heavy*."""


class _Waiting(NamedTuple):
    key: str
    run: Callable[[], None]


class Estimates(Protocol):
    """Where the estimates of many plans run.

    Attributes:
        done: called with the plan's key when an estimate or tests have ended; set before the first
            one.
    """

    done: Callable[[str], None]

    def start(self, key: str, run: Callable[[], None]) -> None:
        """Run a plan's estimate, now or later; ``run`` raises nothing."""

    def start_tests(self, key: str, run: Callable[[], None]) -> None:
        """Run a plan's tests of change, now or later; no estimate waits for them."""


class EstimatePool:
    """A queue of estimates and the threads that run them; tests of change have one more thread.

    The next estimate is that of the plan whose last one was the shortest. Heavy plans never take
    all threads: one is left for the others. Each plan has one estimate at a time, so a heavy plan
    waits at most for the estimates of the others, one each. Tests run in the order in which they
    were started; each plan has those of one window at a time.

    Args:
        threads: maximum number of threads for estimates, at least 2; they start when they are
            needed.

    Attributes:
        done: see :class:`Estimates`.
    """

    def __init__(self, clock: Clock, threads: int) -> None:
        if threads < 2:
            raise ValueError(f"a pool has at least 2 threads, not {threads}")
        self._clock = clock
        self._most = threads
        self.done: Callable[[str], None] = lambda _key: None
        self._lock = threading.Lock()
        self._waiting: list[_Waiting] = []
        self._seconds: dict[str, float] = {}
        self._running = 0
        self._heavy = 0
        self._tests: deque[_Waiting] = deque()
        self._testing = False

    def start(self, key: str, run: Callable[[], None]) -> None:
        """Run a plan's estimate when a thread is free; ``run`` raises nothing."""
        with self._lock:
            self._waiting.append(_Waiting(key, run))
            self._dispatch()

    def start_tests(self, key: str, run: Callable[[], None]) -> None:
        """Run a plan's tests of change after those before; ``run`` raises nothing."""
        with self._lock:
            self._tests.append(_Waiting(key, run))
            if not self._testing:
                self._testing = True
                threading.Thread(target=self._work_tests, name="tests", daemon=True).start()

    def _work_tests(self) -> None:
        """Run tests until there are none."""
        while True:
            with self._lock:
                if not self._tests:
                    self._testing = False
                    return
                job = self._tests.popleft()
            job.run()
            self.done(job.key)

    def _dispatch(self) -> None:
        while self._running < self._most and (chosen := self._next()) is not None:
            self._waiting.remove(chosen)
            heavy = self._is_heavy(chosen.key)
            self._running += 1
            self._heavy += heavy
            threading.Thread(
                target=self._work, args=(chosen, heavy), name="estimate", daemon=True
            ).start()

    def _next(self) -> _Waiting | None:
        allowed = [
            waiting
            for waiting in self._waiting
            if self._heavy < self._most - 1 or not self._is_heavy(waiting.key)
        ]
        return min(allowed, key=lambda w: self._seconds.get(w.key, 0.0), default=None)

    def _is_heavy(self, key: str) -> bool:
        return self._seconds.get(key, 0.0) > HEAVY_SECONDS

    def _work(self, job: _Waiting, heavy: bool) -> None:
        began = self._clock.monotonic()
        try:
            job.run()
        finally:
            with self._lock:
                self._seconds[job.key] = self._clock.monotonic() - began
                self._running -= 1
                self._heavy -= heavy
                self._dispatch()
            self.done(job.key)
