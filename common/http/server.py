"""Servers: their sockets, their library, their log, and defects."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Callable
from typing import Any

import structlog
import uvicorn

from calmstream.common.errors import FatalError
from calmstream.common.http.answer import HttpReply
from calmstream.common.http.connection import protocol_of
from calmstream.common.http.connections import Connections
from calmstream.common.http.sending import send_answer

_BACKLOG = 1024
_SOCKET_BYTES = 64 << 10
"""Of the system's buffers of one connection, in each direction."""

_GRACEFUL_SECONDS = 3
_OTHER_FILES = 1024


def listen(host: str, port: int, what: str) -> socket.socket:
    """Return a listening socket of any address: IPv4, IPv6, a name, or ``::`` for both families."""
    try:
        found = socket.getaddrinfo(
            host or None, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, address = found[0][0], str(found[0][4][0])
        both = host == "::" and socket.has_dualstack_ipv6()
        listening = socket.create_server(
            (address, port), family=family, backlog=_BACKLOG, dualstack_ipv6=both
        )
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            listening.setsockopt(socket.SOL_SOCKET, option, _SOCKET_BYTES)
    except (OSError, OverflowError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise FatalError(f"cannot serve {what} on {host}:{port}: {why}") from None
    return listening


def as_host(address: str) -> str:
    """Return an address as it stands in a URL or a ``Host`` header."""
    return f"[{address}]" if ":" in address else address


def anywhere(address: str) -> bool:
    """Whether a server on this address listens on all addresses of the machine."""
    return address in {"0.0.0.0", "::", ""}  # noqa: S104 - compared with, not bound to


class HttpServer:
    """A server on one socket, in an event loop; it says nothing of itself and trusts no proxy."""

    def __init__(
        self,
        app: Callable[..., Any],
        listening: socket.socket,
        connections: Connections,
        *,
        graceful_seconds: int = _GRACEFUL_SECONDS,
        date_header: bool = True,
    ) -> None:
        keep_quiet()
        _allow_files(connections.places.most)
        self._listening = listening
        self._connections = connections
        self._server = uvicorn.Server(
            uvicorn.Config(
                app,
                http=protocol_of(connections),
                interface="asgi3",
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                date_header=date_header,
                timeout_keep_alive=max(round(connections.idle_seconds), 1),
                timeout_graceful_shutdown=graceful_seconds,
            )
        )

    async def run(self) -> None:
        sweeping = asyncio.create_task(self._connections.sweep())
        try:
            await self._server.serve(sockets=[self._listening])
        finally:
            sweeping.cancel()

    def stop(self) -> None:
        """End :meth:`run`; safe from any thread."""
        self._server.should_exit = True


Handler = Callable[[str, str], HttpReply]
"""Answers a request without a body, from its path and its header ``accept``."""


class ThreadServer:
    """Serves a handler on threads of its own."""

    def __init__(self, handler: Handler, host: str, port: int, what: str) -> None:
        self._handler = handler
        self._listening = listen(host, port, what)
        self.port: int = self._listening.getsockname()[1]
        self._server = HttpServer(self._app, self._listening, Connections())
        self._thread = threading.Thread(target=self._run, name="calmstream-http", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.stop()
        self._thread.join(_GRACEFUL_SECONDS + 2)
        self._listening.close()

    def _run(self) -> None:
        with asyncio.Runner() as runner:
            runner.run(self._server.run())

    async def _app(self, scope: Any, _receive: Any, send: Any) -> None:
        accept = dict(scope["headers"]).get(b"accept", b"").decode("latin-1")
        try:
            answer = await asyncio.to_thread(self._handler, scope["path"], accept)
        except Exception as error:  # noqa: BLE001 - one request's defect is not another's
            structlog.get_logger("calmstream.http").error("defect", **defect(error))
            answer = HttpReply(500, b"defect\n", ((b"content-type", b"text/plain"),))
        await send_answer(send, answer)


def event_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ModuleNotFoundError:  # not made for every system
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def keep_quiet() -> None:
    """Let the server's library log nothing: some of its lines name clients."""
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers = [logging.NullHandler()]
        logger.propagate = False
        logger.setLevel(logging.CRITICAL)


def defect(error: BaseException | None) -> dict[str, str]:
    """Return the fields of a line of the log about a defect: kind and place, no data."""
    trace = None if error is None else error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = "" if trace is None else f"{trace.tb_frame.f_code.co_name}:{trace.tb_lineno}"
    return {"kind": type(error).__name__, "place": place}


def _allow_files(connections: int) -> None:
    try:
        import resource
    except ModuleNotFoundError:  # not on every system
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + _OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        possible = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, possible), hard))
