"""HTTP connections whose work is bounded, whatever the other side sends or does not read.

A connection has one request at a time: what comes behind it waits, and nothing more is read. An
upgrade is never taken and changes nothing (RFC 9110, section 7.8). Before a connection is closed
with a part of a request unread, the rest is read and dropped within bounds, because a reset would
take the answer away from the client.
"""

from __future__ import annotations

import asyncio
import math
import re
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from calmstream.common.http.answer import ConnectionProblem
from calmstream.common.http.connections import Connections
from calmstream.common.http.sending import Sending
from calmstream.common.http.shares import peer_of

MAX_HEAD_BYTES = 16 << 10
MAX_WAITING_BYTES = 16 << 10
"""Of requests that were sent before the answer to the present one; beyond, the answer closes."""

SMALL_BODY_BYTES = 4 << 10
"""Bodies up to here are taken even when the memory for bodies is used up."""

LINGER_SECONDS, LINGER_BYTES = 5.0, 64 << 20
LEAST_RATE = 16 << 10
"""Bytes a second that a client must read of an answer, after the time for a request."""

SYSTEM_BYTES = 256 << 10
"""Of the systems on both sides: what is there has not been read."""

_DECIDING = frozenset(
    b"authorization content-encoding content-length content-type host origin "
    b"transfer-encoding".split()
)
"""Headers of which a request has at most one."""

_UPGRADE = re.compile(rb"\r\nupgrade:", re.IGNORECASE)


@dataclass(slots=True)
class _Request:
    """What one request holds of the shares."""

    body: int = 0
    buffered: int = 0
    counted: bool = False


class _Transport:
    """A transport that counts what is written, and closes as its connection wants."""

    def __init__(self, own: Any, close: Callable[[], None]) -> None:
        self.own = own
        self.close = close
        self.lingers = False
        self.written = 0
        self.unread_since = 0.0
        """When the client last had nothing to read; what was written since is in ``written``."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.own, name)

    def write(self, data: bytes) -> None:
        if not self.own.get_write_buffer_size():
            self.unread_since, self.written = time.monotonic(), 0
        self.written += len(data)
        self.own.write(data)

    def is_closing(self) -> bool:
        return self.lingers or bool(self.own.is_closing())


class Connection(HttpToolsProtocol):
    """One connection; :func:`protocol_of` makes the class that a server uses."""

    shared: Connections
    peer = ""
    _due = math.inf  # for what is to arrive, on the monotonic clock
    _head = b""  # as far as it has arrived
    _left = 0  # of the body; -1 where only its end says how long it is
    _chunked_bytes = 0
    _complete = True  # whether the present request has arrived as a whole
    _may_begin = False  # whether the parser has been given a whole head
    _in_head = False
    _waiting = b""  # what came behind the present request
    _drops = False  # whether further bytes are dropped, and the present answer closes
    _why = ConnectionProblem.NOT_HTTP
    _task: asyncio.Task[Any] | None = None  # of the present request
    _dropped = 0

    def connection_made(self, transport: Any) -> None:
        self._to = _Transport(transport, self._close)
        super().connection_made(cast("asyncio.Transport", self._to))
        self._request = _Request()
        self.peer = peer_of(self.client)
        if not self.shared.admit(self):
            self._refuse(ConnectionProblem.BUSY)
            return
        # Head and body of an answer are two writes; the second must not wait for the client.
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._expect()
        self.shared.note_idle(self, idle=True)

    def connection_lost(self, exc: Exception | None) -> None:
        self.shared.leave(self)
        if self._task is not None and self.shared.cancels:
            self._task.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._to.is_closing() or self._drops:
            self._dropped += len(data)
            if self._dropped > LINGER_BYTES:
                self.abort()
            return
        self._unset_keepalive_if_required()
        if self._waiting or self._busy():
            self._wait(self._waiting + data)
            return
        self._feed(data)

    def _feed(self, data: bytes) -> None:
        """Give the parser what belongs to the present request, and keep the rest."""
        self.shared.note_idle(self, idle=False)
        while data and not self._to.is_closing() and not self._drops:
            if self._busy():
                self._wait(data)
                return
            if self._complete:
                part, data = self._next_head(data)
            elif self._left >= 0:
                part, data = data[: self._left], data[self._left :]
                self._left -= len(part)
            else:
                part, data = data, b""
                self._chunked_bytes += len(part)
            if part:
                super().data_received(part)
                self._may_begin = False
            if self._chunked_bytes > 2 * self.shared.body_bytes + MAX_HEAD_BYTES:
                self._refuse(ConnectionProblem.TOO_LARGE)

    def _next_head(self, data: bytes) -> tuple[bytes, bytes]:
        """Return a whole head, without upgrade, and what follows; nothing while it arrives."""
        if self._due == math.inf:
            self._expect()
        self._head += data if self._head else data.lstrip(b"\r\n")
        end = self._head.find(b"\r\n\r\n")
        if self._head and not self._head[:1].isalpha():
            self._refuse(ConnectionProblem.NOT_HTTP)
        elif end > MAX_HEAD_BYTES or (end < 0 and len(self._head) > MAX_HEAD_BYTES):
            self._refuse(ConnectionProblem.HEAD_TOO_LARGE)
        elif end >= 0:
            head, rest, self._head = self._head[: end + 4], self._head[end + 4 :], b""
            self._may_begin = True
            return _UPGRADE.sub(b"\r\nupgrade-not-taken:", head), rest
        return b"", b""

    def _busy(self) -> bool:
        """Whether a whole request has no answer yet."""
        return self._complete and not getattr(self.cycle, "response_complete", True)

    def _wait(self, data: bytes) -> None:
        self.flow.pause_reading()
        if len(data) <= MAX_WAITING_BYTES:
            self._waiting = data
        else:
            self._drop_the_rest()

    def _drop_the_rest(self) -> None:
        self._waiting, self._drops = b"", True
        self.cycle.keep_alive = False

    # What the parser calls. An exception ends the parser; then `send_400_response` is called.

    def on_message_begin(self) -> None:
        if not self._may_begin:
            raise ValueError("a request behind a body whose length was not stated")
        self._may_begin = False
        self._in_head, self._complete, self._chunked_bytes = True, False, 0
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """See the base class; what comes behind the body changes nothing."""
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head = False
        names = [name for name, _ in self.headers]
        decide = [name for name in names if name in _DECIDING]
        if len(set(decide)) < len(decide) or self.parser.get_method() == b"CONNECT":
            raise ValueError("a deciding header is repeated")
        self._left = -1 if b"transfer-encoding" in decide else 0
        if b"content-length" in decide:
            self._left = int(dict(self.headers)[b"content-length"])
        self._request = _Request()
        super().on_headers_complete()
        if self._left and not self.shared.body_bytes:
            self.cycle.keep_alive = False  # the body is not read

    def on_body(self, body: bytes) -> None:
        if self.cycle.response_complete or not self.shared.body_bytes:
            return
        request = self._request
        request.body += len(body)
        more = request.body - SMALL_BODY_BYTES - request.buffered
        if more > 0:
            if not self.shared.buffer.take(self.peer, more):
                self._why = ConnectionProblem.BUSY
                raise ValueError("no memory for the body")
            request.buffered += more
        super().on_body(body)

    def on_message_complete(self) -> None:
        """See the base class; only now the request counts."""
        self._complete, self._due = True, math.inf
        if not self.cycle.response_complete:
            if not self.shared.requests.take(self.peer):
                self._why = ConnectionProblem.BUSY
                raise ValueError("too many requests")
            self._request.counted = True
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._to.is_closing() or not self._complete:
            return
        if self._waiting:
            self.loop.call_soon(self._feed_waiting)
        else:
            self.shared.note_idle(self, idle=True)

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - the base class's signature
        if self._why == ConnectionProblem.NOT_HTTP and self._busy():
            self._drop_the_rest()  # what stands behind a chunked body
        else:
            self._refuse(self._why)

    def _feed_waiting(self) -> None:
        data, self._waiting = self._waiting, b""
        self._feed(data)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        """See the base class; the request gives its shares back when its work has ended."""
        request = self._request

        async def bounded(scope: Any, receive: Any, send: Any) -> None:
            shared, self._task = self.shared, asyncio.current_task()
            try:
                await app(scope, receive, Sending(send, shared.sending, self.peer, shared.refused))
            finally:
                self._task = None
                self._give_back(request)

        super()._start_asgi_task(cycle, bounded)

    def _give_back(self, request: _Request) -> None:
        if request.counted:
            self.shared.requests.give_back(self.peer)
        if request.buffered:
            self.shared.buffer.give_back(self.peer, request.buffered)

    def _expect(self) -> None:
        self._due = time.monotonic() + self.shared.request_seconds

    def too_slow(self, now: float, grace: float = 0.0) -> bool:
        """Whether something did not arrive in time, or an answer is read too slowly."""
        unread = self._to.own.get_write_buffer_size()
        read = max(self._to.written - unread - SYSTEM_BYTES, 0)
        allowed = (grace or self.shared.request_seconds) + read / LEAST_RATE
        return now >= self._due or (unread > 0 and now - self._to.unread_since > allowed)

    def abort(self) -> None:
        """Close at once, whatever is on its way."""
        self.shared.leave(self)
        self._to.own.abort()

    def _refuse(self, reason: ConnectionProblem) -> None:
        """Answer without the application, and close."""
        if self._to.is_closing():
            return
        if not getattr(self.cycle, "response_complete", True):
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.shared.cut += 1
        self.shared.refused(reason)
        self._to.write(reason.answer().raw())
        self._complete = False
        self._close()

    def _close(self) -> None:
        """Close; where the client may still send, read on for a while."""
        if self._to.is_closing():
            return
        unread = not self._complete or self._waiting or self._drops
        if not unread or not self.shared.has(self):
            self._to.own.close()
            return
        self._to.lingers, self._waiting = True, b""
        self._to.own.write_eof()
        self.flow.resume_reading()
        self._due = time.monotonic() + LINGER_SECONDS
        self.shared.note_idle(self, idle=True)


def protocol_of(connections: Connections) -> type[Connection]:
    return type("ServerConnection", (Connection,), {"shared": connections})
