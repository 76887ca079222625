"""Few threads on which the workers of many plans take turns."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue

from calmstream.common.clock import Clock

_QUICK_SECONDS = 1.0
"""A call that takes longer no longer counts as quick: the next one need not wait for it."""


class Task:
    """A call that runs on another thread, or has ended; ``more`` is what it has returned."""

    def __init__(self, call: Callable[[], bool], began: float) -> None:
        self.began = began
        self.error: BaseException | None = None
        self.more = False
        self.done = False
        self._call = call

    def run(self) -> None:
        try:
            self.more = self._call()
        except BaseException as error:  # noqa: BLE001 - the loop decides what it means
            self.error = error
        self.done = True


class Lanes:
    """Runs at most ``quick`` quick calls at once, and ``most`` calls with those that take long.

    So a plan whose topics do not answer holds up nobody. Ask :meth:`free` before :meth:`start`.
    """

    def __init__(self, clock: Clock, *, quick: int = 16, most: int = 48) -> None:
        self._clock = clock
        self._quick = quick
        self._most = most
        self._tasks: SimpleQueue[Task] = SimpleQueue()
        self._running: list[Task] = []
        self._threads = 0

    def free(self) -> bool:
        """Return whether another call can begin now."""
        self._running = [task for task in self._running if not task.done]
        return len(self._running) < self._most and self._number_quick() < self._quick

    def start(self, call: Callable[[], bool]) -> Task:
        """Begin a call, on a thread that waits or on a new one."""
        task = Task(call, self._clock.monotonic())
        self._running = [running for running in self._running if not running.done]
        self._running.append(task)
        if len(self._running) > self._threads:
            self._threads += 1
            threading.Thread(target=self._work, name="plans", daemon=True).start()
        self._tasks.put(task)
        return task

    def busy(self) -> bool:
        return self._number_quick() > 0

    def _number_quick(self) -> int:
        since = self._clock.monotonic() - _QUICK_SECONDS
        return sum(not task.done and task.began >= since for task in self._running)

    def _work(self) -> None:
        while True:
            self._tasks.get().run()
