"""HTTP connections with limits that uvicorn does not have: of headers, of time, of their number.

Connections that break a limit are cut; nothing is logged about them.
"""

from __future__ import annotations

import asyncio
import math
import time
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from calmstream.common.http_server import send_at_once
from calmstream.producer.gateway.http.problems import Problem, problem

MAX_HEAD_BYTES = 16 << 10
SWEEP_SECONDS = 0.5


@dataclass
class Connections:
    """The open connections of one server, and their limits.

    Attributes:
        most: open at once.
        request_seconds: for a request to arrive, and again for its answer to leave.
        cut: connections that were closed because of a limit.
    """

    most: int
    request_seconds: float
    cut: int = 0
    open: set[LimitedProtocol] = field(default_factory=set)

    async def sweep(self) -> None:
        """Close connections that are too slow, until cancelled."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            now = time.monotonic()
            for connection in [c for c in self.open if c.due <= now]:
                self.cut += 1
                connection.abort()


class LimitedProtocol(HttpToolsProtocol):
    """One connection. :func:`limited` makes the class that a server uses."""

    limits: Connections
    due: float = math.inf
    """When the connection is cut, on the monotonic clock."""

    _head = 0
    """Bytes of the present request's line and headers."""

    _partial = 0
    """Bytes that were received of a head that is not complete."""

    _heads = 0
    _complete = True

    def connection_made(self, transport: Any) -> None:
        """See the base class."""
        super().connection_made(transport)
        if len(self.limits.open) >= self.limits.most:
            self._refuse(Problem.BUSY)
            return
        send_at_once(transport)
        self.limits.open.add(self)
        self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        """See the base class."""
        self.limits.open.discard(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """See the base class."""
        if self.transport.is_closing():
            return
        if self.due == math.inf:
            self._expect()
        heads, in_head = self._heads, self._complete
        super().data_received(data)
        if in_head and self._heads == heads:
            self._partial += len(data)
            if self._partial > MAX_HEAD_BYTES:
                self._refuse(Problem.HEAD_TOO_LARGE)

    def on_message_begin(self) -> None:
        """See the base class."""
        self._head = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """See the base class."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """See the base class."""
        self._count(len(name) + len(value))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """See the base class."""
        self._heads += 1
        self._partial = 0
        self._complete = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """See the base class; from now on the answer has its time."""
        self._complete = True
        super().on_message_complete()
        self._expect()

    def on_response_complete(self) -> None:
        """See the base class; an answer that is not read has its time too."""
        super().on_response_complete()
        if self._complete and not self._partial and not self.transport.get_write_buffer_size():
            self.due = math.inf  # idle: the base class closes it after a while

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - the base class's signature
        """Answer what is not HTTP; the base class calls it."""
        large = self._head > MAX_HEAD_BYTES
        self._refuse(Problem.HEAD_TOO_LARGE if large else Problem.NOT_HTTP)

    def abort(self) -> None:
        """Close at once, whatever is on its way."""
        self.due = math.inf
        self.transport.abort()

    def _expect(self) -> None:
        self.due = time.monotonic() + self.limits.request_seconds

    def _count(self, size: int) -> None:
        self._head += size
        if self._head > MAX_HEAD_BYTES:
            raise ValueError("the head is too large")  # ends the parser; see send_400_response

    def _refuse(self, reason: Problem) -> None:
        if self.transport.is_closing():
            return
        self.limits.cut += 1
        answer = problem(reason)
        lines = [f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}".encode()]
        lines += [name + b": " + value for name, value in answer.headers]
        lines += [b"content-length: " + str(len(answer.body)).encode(), b"", answer.body]
        self.transport.write(b"\r\n".join(lines))
        self.transport.close()


def limited(connections: Connections) -> type[LimitedProtocol]:
    """Return the class of the connections of one server."""
    return type("LimitedConnection", (LimitedProtocol,), {"limits": connections})
