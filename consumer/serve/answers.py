"""Computed answers: each question once at a time, and the last answers kept."""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

from calmstream.common.version import version
from calmstream.consumer.serve.problems import Problem, Refused


@dataclass(slots=True, eq=False)
class _Computation:
    future: Future[bytes]
    task: asyncio.Task[bytes]
    waiting: int = 0
    promised: bool = False
    """Whether somebody was told to ask again for it."""


class Answers:
    """Answers by their ETag. To be used on the server's event loop only."""

    def __init__(self, most_bytes: int, seconds: float) -> None:
        self._most = most_bytes
        self._seconds = seconds
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._bytes = 0
        self._running: dict[str, _Computation] = {}

    def has(self, etag: str) -> bool:
        return etag in self._kept

    async def get(self, etag: str, submit: Callable[[], Future[bytes]]) -> bytes:
        """Return a kept answer, or compute it once for all who wait, while anybody waits."""
        if etag in self._kept:
            self._kept.move_to_end(etag)
            return self._kept[etag]
        running = self._running.get(etag) or self._begin(etag, submit())
        running.waiting += 1
        try:
            return await asyncio.wait_for(asyncio.shield(running.task), self._seconds)
        except TimeoutError:
            running.promised = True
            raise Refused(
                Problem.SLOW, f"the answer takes longer than {self._seconds:g} s; ask again"
            ) from None
        finally:
            running.waiting -= 1
            if not running.waiting and not running.promised and running.future.cancel():
                self._running.pop(etag, None)  # at once: the next to ask begins anew

    def _begin(self, etag: str, future: Future[bytes]) -> _Computation:
        task = asyncio.get_running_loop().create_task(self._compute(etag, future))
        running = self._running[etag] = _Computation(future, task)

        def end(_: asyncio.Task[bytes]) -> None:
            if self._running.get(etag) is running:
                del self._running[etag]
            if not task.cancelled():
                task.exception()  # nobody may wait for it any more

        task.add_done_callback(end)
        return running

    async def _compute(self, etag: str, future: Future[bytes]) -> bytes:
        body = await asyncio.wrap_future(future)
        if len(body) <= self._most:
            self._kept[etag] = body
            self._bytes += len(body)
            while self._bytes > self._most:
                self._bytes -= len(self._kept.popitem(last=False)[1])
        return body


def etag_of(*parts: object) -> str:
    """Return the ETag of an answer that these parts and the software decide."""
    digest = hashlib.sha256(repr((*parts, version())).encode())
    return f'"{digest.hexdigest()[:32]}"'
