"""HTTP connections with limits that uvicorn does not have: of their number, head and time.

A connection that breaks a limit is closed without an answer.
"""

from __future__ import annotations

import asyncio
import math
import time
from dataclasses import dataclass, field
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from calmstream.common.http_server import send_at_once

MAX_HEAD_BYTES = 16 << 10
_SWEEP_SECONDS = 0.5


@dataclass
class Connections:
    """The open connections of one server, and their limits.

    Attributes:
        most: open at once.
        request_seconds: for the head of a request to arrive, and the longest time in which a client
            reads nothing of what waits for it.
    """

    most: int
    request_seconds: float
    open: set[LimitedProtocol] = field(default_factory=set)

    async def sweep(self) -> None:
        """Close connections that are too slow, until cancelled."""
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            now = time.monotonic()
            for connection in tuple(self.open):
                if connection.due <= now or connection.unread(now) > self.request_seconds:
                    connection.abort()


class LimitedProtocol(HttpToolsProtocol):
    """One connection. :func:`limited` makes the class that a server uses."""

    limits: Connections
    due: float = math.inf
    """When the connection is closed, on the monotonic clock, unless a request is complete."""

    _head = 0
    _waiting = 0
    _since = 0.0

    def connection_made(self, transport: Any) -> None:
        """See the base class."""
        super().connection_made(transport)
        if len(self.limits.open) >= self.limits.most:
            self.abort()
            return
        send_at_once(transport)
        self.limits.open.add(self)
        self.due = time.monotonic() + self.limits.request_seconds

    def connection_lost(self, exc: Exception | None) -> None:
        """See the base class."""
        self.limits.open.discard(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """See the base class; requests have no body, so all that arrives is their heads."""
        if self.transport.is_closing():
            return
        if self.due == math.inf:
            self.due = time.monotonic() + self.limits.request_seconds
        self._head += len(data)
        if self._head > MAX_HEAD_BYTES:
            self.abort()
            return
        super().data_received(data)

    def on_message_complete(self) -> None:
        """See the base class."""
        super().on_message_complete()
        self._head = 0
        self.due = math.inf

    def unread(self, now: float) -> float:
        """Return the seconds since the client last read something of what waits for it."""
        waiting = self.transport.get_write_buffer_size()
        if waiting == 0 or waiting != self._waiting:
            self._waiting, self._since = waiting, now
        return now - self._since

    def abort(self) -> None:
        """Close at once, whatever is on its way."""
        self.due = math.inf
        self.transport.abort()


def limited(connections: Connections) -> type[LimitedProtocol]:
    """Return the class of the connections of one server."""
    return type("LimitedConnection", (LimitedProtocol,), {"limits": connections})
