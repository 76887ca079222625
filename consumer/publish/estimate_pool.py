"""Runs the estimates of many plans on few threads, so that no plan waits for the heavy ones."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NamedTuple

from calmstream.common.clock import Clock

HEAVY_SECONDS = 1.0
"""A plan whose last estimate took longer is *heavy*."""


class _Waiting(NamedTuple):
    key: str
    run: Callable[[], None]
    turn: int


class EstimatePool:
    """A queue of calls and the threads that run them.

    Plans take turns: a call waits for at most one later call of each other plan. Of the calls of
    one turn, that of the plan whose last one was the shortest is next. Heavy plans never take all
    threads, if there are several: one is left for the others.

    Attributes:
        done: called with the plan's key when a call has ended.
    """

    def __init__(self, clock: Clock, threads: int) -> None:
        self._clock = clock
        self._most = threads
        self.done: Callable[[str], None] = lambda _key: None
        self._lock = threading.Lock()
        self._waiting: list[_Waiting] = []
        self._seconds: dict[str, float] = {}
        self._turns: dict[str, int] = {}
        self._turn = 0
        self._running = 0
        self._heavy = 0

    def start(self, key: str, run: Callable[[], None]) -> None:
        """Run a plan's call when a thread is free; ``run`` raises nothing."""
        with self._lock:
            turn = self._turns[key] = max(self._turns.get(key, -1) + 1, self._turn)
            self._waiting.append(_Waiting(key, run, turn))
            self._dispatch()

    def _dispatch(self) -> None:
        while self._running < self._most and (chosen := self._next()) is not None:
            self._waiting.remove(chosen)
            self._turn = max(self._turn, chosen.turn)
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
            if self._heavy < max(1, self._most - 1) or not self._is_heavy(waiting.key)
        ]
        return min(allowed, key=lambda w: (w.turn, self._seconds.get(w.key, 0.0)), default=None)

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
