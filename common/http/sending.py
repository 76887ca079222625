"""Sends bodies in slices, each when the client has read enough, within a budget of bytes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from calmstream.common.http.answer import ConnectionProblem, HttpReply
from calmstream.common.http.shares import Share

SLICE_BYTES = 64 << 10
_START, _BODY = "http.response.start", "http.response.body"

Send = Callable[[Any], Awaitable[None]]


class BodyBudget:
    """Bytes of the different large bodies that are being sent; one body may have many readers."""

    def __init__(self, most: int) -> None:
        self._share = Share(most)
        # By identity of the body: how many, and the peer of the first, charged until the last ends.
        self._readers: dict[int, tuple[int, str]] = {}

    def hold(self, body: bytes, peer: str) -> bool:
        """Begin to send a body; False where there is no room. Alone, a body of any size is sent."""
        readers, first = self._readers.get(id(body), (0, peer))
        if not readers and not self._share.take(peer, min(len(body), self._share.most)):
            return False
        self._readers[id(body)] = readers + 1, first
        return True

    def release(self, body: bytes) -> None:
        """End what :meth:`hold` began."""
        readers, first = self._readers[id(body)]
        if readers > 1:
            self._readers[id(body)] = readers - 1, first
            return
        del self._readers[id(body)]
        self._share.give_back(first, min(len(body), self._share.most))


class Sending:
    """Stands between an application and its connection, and sends what the application sends.

    The head waits for the first part of the body, so that an answer without room becomes a 503.
    """

    def __init__(
        self, send: Send, budget: BodyBudget, peer: str, refused: Callable[[str], None]
    ) -> None:
        self._send = send
        self._budget = budget
        self._peer = peer
        self._refused = refused
        self._start: MutableMapping[str, Any] | None = None
        self._over = False

    async def __call__(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == _START:
            self._start = message
            return
        body = message.get("body", b"")
        if self._over:
            return
        if len(body) <= SLICE_BYTES:
            await self._begin()
            await self._send(message)
        elif self._budget.hold(body, self._peer):
            try:
                await self._begin()
                await self._in_slices(body, more=message.get("more_body", False))
            finally:
                self._budget.release(body)
        elif self._start is not None:
            self._start, self._over = None, True
            self._refused(ConnectionProblem.BUSY)
            await send_answer(self._send, ConnectionProblem.BUSY.answer())
        else:
            raise BufferError("no room for a further part of a body")

    async def _begin(self) -> None:
        if self._start is not None:
            start, self._start = self._start, None
            await self._send(start)

    async def _in_slices(self, body: bytes, *, more: bool) -> None:
        view = memoryview(body)
        for at in range(0, len(body), SLICE_BYTES):
            part, last = view[at : at + SLICE_BYTES], at + SLICE_BYTES >= len(body)
            await self._send({"type": _BODY, "body": bytes(part), "more_body": more or not last})


async def send_answer(send: Send, answer: HttpReply) -> None:
    await send({"type": _START, "status": answer.status, "headers": answer.head()})
    await send({"type": _BODY, "body": answer.body})
