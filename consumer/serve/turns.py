"""Queues that take turns on some threads, one job of a queue at a time."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from calmstream.common.http.shares import Share
from calmstream.consumer.runtime.threads import Threads
from calmstream.consumer.serve.problems import Problem, Refused

T = TypeVar("T")
_Job = tuple[Future[Any], Callable[[], Any]]


class Queue:
    """Jobs of which one runs at a time, one a turn: no queue delays the others for long.

    Safe for several threads. Jobs of the server itself come first. Then peers take turns, so that
    one who asks much does not delay the others; each one's jobs keep their order.
    """

    def __init__(self, threads: Threads, most: int) -> None:
        self._threads = threads
        self._lock = threading.Lock()
        self._share = Share(most)
        self._own: deque[_Job] = deque()
        self._waiting: OrderedDict[str, deque[_Job]] = OrderedDict()
        self._scheduled = False

    def submit(self, job: Callable[[], T], *, peer: str | None = None) -> Future[T]:
        """Add a job; its future can be cancelled until it runs."""
        future: Future[T] = Future()
        with self._lock:
            if peer is None:
                self._own.append((future, job))
            else:
                if not self._share.take(peer):
                    self._forget_cancelled()
                    if not self._share.take(peer):
                        detail = "too many questions about this plan wait"
                        raise Refused(Problem.BUSY, detail)
                self._waiting.setdefault(peer, deque()).append((future, job))
            self._schedule()
        return future

    def _forget_cancelled(self) -> None:
        for peer, jobs in list(self._waiting.items()):
            kept = deque(job for job in jobs if not job[0].cancelled())
            self._share.give_back(peer, len(jobs) - len(kept))
            self._waiting[peer] = kept
            if not kept:
                del self._waiting[peer]

    def _schedule(self) -> None:
        if (self._own or self._waiting) and not self._scheduled:
            self._scheduled = True
            self._threads.put(self._turn)

    def _next(self) -> _Job | None:
        if self._own:
            return self._own.popleft()
        if not self._waiting:
            return None
        peer, jobs = self._waiting.popitem(last=False)
        job = jobs.popleft()
        self._share.give_back(peer)
        if jobs:
            self._waiting[peer] = jobs  # behind the other peers
        return job

    def _turn(self) -> None:
        """Do one job, then ask for the next turn behind those of the other queues."""
        with self._lock:
            job = self._next()
            while job is not None and not job[0].set_running_or_notify_cancel():
                job = self._next()
        if job is not None:
            future, work = job
            try:
                future.set_result(work())
            except BaseException as error:  # noqa: BLE001 - whoever waits for the future gets it
                future.set_exception(error)
        with self._lock:
            self._scheduled = False
            self._schedule()
