"""What the gateway and the server of results share: socket, library, log, and defects."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import Any

import uvicorn

from calmstream.common.errors import FatalError

_BACKLOG = 1024


def listen(host: str, port: int, what: str) -> socket.socket:
    """Return a listening socket.

    Args:
        host: address.
        port: 0 for any free one.
        what: is served, for the message.

    Raises:
        FatalError: the address cannot be bound.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise FatalError(f"cannot serve {what} on {host}:{port}: {why}") from None


def send_at_once(transport: Any) -> None:
    """Set TCP_NODELAY on an accepted connection.

    Head and body of an answer are two writes; the second must not wait for the client. Not every
    event loop sets it.

    Args:
        transport: of asyncio.
    """
    transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def server(
    app: Callable[..., Any],
    connections: type[asyncio.Protocol],
    *,
    idle_seconds: float,
    graceful_seconds: int,
    date_header: bool = True,
) -> uvicorn.Server:
    """Return a server that says nothing about itself or its clients, and trusts no proxy.

    Args:
        app: of the ASGI interface.
        connections: class of its connections.
        idle_seconds: after which a connection without a request is closed, at least one.
        graceful_seconds: for the answers on their way, when it stops.
        date_header: whether answers have the time.
    """
    return uvicorn.Server(
        uvicorn.Config(
            app,
            http=connections,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=date_header,
            timeout_keep_alive=max(round(idle_seconds), 1),
            timeout_graceful_shutdown=graceful_seconds,
        )
    )


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
