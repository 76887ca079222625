"""A bounded pool of threads that serves queues in turn, one job of a queue at a time."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")


class QueueFull(Exception):  # noqa: N818 - it is an outcome, not a defect
    """So many jobs wait already that no further one is taken."""


class Turns:
    """The threads. Each queue gets one job done per turn, so that none delays the others for long.

    A process does not wait for the threads when it ends: a job may be in the middle of a long
    computation, or wait for a broker.

    Args:
        threads: jobs that run at once.
    """

    def __init__(self, threads: int) -> None:
        self._turns: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._threads = threads
        for number in range(threads):
            name = f"calmstream-answer-{number}"
            threading.Thread(target=self._work, name=name, daemon=True).start()

    def queue(self, most: int) -> Queue:
        """Return a new queue, in which at most so many jobs wait."""
        return Queue(self._turns.put, most)

    def close(self) -> None:
        """End the threads after the turns that were asked for before."""
        for _ in range(self._threads):
            self._turns.put(None)

    def _work(self) -> None:
        while (turn := self._turns.get()) is not None:
            turn()


class Queue:
    """Jobs that run one after another, in their order. Safe for use from several threads."""

    def __init__(self, ask: Callable[[Callable[[], None]], None], most: int) -> None:
        self._ask = ask
        self._most = most
        self._lock = threading.Lock()
        self._waiting: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._scheduled = False

    def __len__(self) -> int:
        return len(self._waiting)

    def submit(self, job: Callable[[], T], *, always: bool = False) -> Future[T]:
        """Add a job; its future can be cancelled until it runs.

        Args:
            job: the work.
            always: take it even if the queue is full.

        Raises:
            QueueFull: too many jobs wait.
        """
        future: Future[T] = Future()
        with self._lock:
            if len(self._waiting) >= self._most and not always:
                self._forget_cancelled()
                if len(self._waiting) >= self._most:
                    raise QueueFull
            self._waiting.append((future, job))
            self._schedule()
        return future

    def _forget_cancelled(self) -> None:
        self._waiting = deque(item for item in self._waiting if not item[0].cancelled())

    def _schedule(self) -> None:
        """Ask for one turn, if there is work and no turn was asked for."""
        if self._waiting and not self._scheduled:
            self._scheduled = True
            self._ask(self._turn)

    def _turn(self) -> None:
        """Do one job, then ask for the next turn behind those of the other queues."""
        with self._lock:
            job = None
            while self._waiting and job is None:
                future, work = self._waiting.popleft()
                if future.set_running_or_notify_cancel():
                    job = work
        if job is not None:
            try:
                future.set_result(job())
            except BaseException as error:  # noqa: BLE001 - whoever waits for the future gets it
                future.set_exception(error)
        with self._lock:
            self._scheduled = False
            self._schedule()
