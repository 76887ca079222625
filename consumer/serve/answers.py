"""Computed answers: each question once at a time, and the last answers kept."""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from importlib.metadata import PackageNotFoundError, version

from calmstream.consumer.serve.plan_service import PlanService
from calmstream.consumer.serve.problems import Problem, Refused
from calmstream.estimators.wire.snapshot import Revision

Submit = Callable[[], Future[bytes]]


class Answers:
    """Answers by their ETag. To be used on the server's event loop only.

    Args:
        most_bytes: of the answers that are kept, the last used ones.
        seconds: longest wait for an answer; its computation goes on.
    """

    def __init__(self, most_bytes: int, seconds: float) -> None:
        self._most = most_bytes
        self._seconds = seconds
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._bytes = 0
        self._running: dict[str, asyncio.Task[bytes]] = {}

    def has(self, etag: str) -> bool:
        """Return whether the answer is kept."""
        return etag in self._kept

    async def get(self, etag: str, submit: Submit) -> bytes:
        """Return a kept answer, or compute it; everybody who waits for it gets the same one.

        Args:
            etag: identifies the answer.
            submit: starts the computation.

        Raises:
            Refused: the question has no answer, or it takes too long.
        """
        if etag in self._kept:
            self._kept.move_to_end(etag)
            return self._kept[etag]
        task = self._running.get(etag)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._compute(etag, submit()))
            self._running[etag] = task
            task.add_done_callback(lambda _: self._running.pop(etag, None))
            task.add_done_callback(_look_at)
        try:
            return await asyncio.wait_for(asyncio.shield(task), self._seconds)
        except TimeoutError:
            raise Refused(
                Problem.SLOW, f"the answer takes longer than {self._seconds:g} s; ask again"
            ) from None

    async def _compute(self, etag: str, future: Future[bytes]) -> bytes:
        body = await asyncio.wrap_future(future)
        if len(body) <= self._most:
            self._kept[etag] = body
            self._bytes += len(body)
            while self._bytes > self._most:
                self._bytes -= len(self._kept.popitem(last=False)[1])
        return body


def _look_at(task: asyncio.Task[bytes]) -> None:
    """Take note of an error that nobody waits for any more."""
    if not task.cancelled():
        task.exception()


def etag_of(service: PlanService, revision: Revision, *parts: object) -> str:
    """Return the ETag of an answer: it changes with the counts, the question and the software."""
    digest = hashlib.sha256(
        repr((service.plan.digest, service.namespace, revision, parts, _SOFTWARE)).encode()
    )
    return f'"{digest.hexdigest()[:32]}"'


def _software() -> str:
    try:
        return version("calmstream")
    except PackageNotFoundError:  # a checkout that is not installed
        return ""


_SOFTWARE = _software()
