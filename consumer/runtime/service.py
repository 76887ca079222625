"""Running roles in one process: threads, signals, logging and the web server."""

from __future__ import annotations

import logging
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, Protocol

import structlog
from prometheus_client import CollectorRegistry

from consumer.runtime.config import HttpConfig
from consumer.runtime.health import HealthServer, RoleHealth, health_app
from consumer.runtime.memory import keep_freed_memory
from estimators.errors import FatalError

_JOIN_SECONDS = 0.2


class Role(Protocol):
    """Something that runs until it is asked to stop: a tally worker, a publisher."""

    @property
    def name(self) -> str:
        """For logs and health."""

    @property
    def health(self) -> RoleHealth:
        """For the web server."""

    def run(self, stop: threading.Event) -> None:
        """Work until ``stop`` is set, then leave in good order within a stated time.

        Raises:
            CalmstreamError: it cannot go on.
        """


def configure_logging(level: str = "info") -> None:
    """Log one JSON object a line on stderr, with times in UTC. Nothing logs payloads."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.getLevelNamesMapping()[level.upper()]
        ),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )


def run_service(roles: Sequence[Role], registry: CollectorRegistry, config: HttpConfig) -> None:
    """Run the roles with signal handling and, unless the port is -1, the web server.

    The first SIGTERM or SIGINT stops all roles gracefully; a second one ends the process at once.
    Call it from the main thread.

    Raises:
        FatalError: the web server's address cannot be bound.
        CalmstreamError: the error of the first role that failed; the others were stopped
            gracefully.
    """
    keep_freed_memory()
    server = _serve(roles, registry, config)
    try:
        with _Signals() as stop:
            run_roles(roles, stop)
    finally:
        if server is not None:
            server.close()


def run_roles(roles: Sequence[Role], stop: threading.Event) -> None:
    """Run every role in a thread of its own until all have ended; one that fails stops the rest.

    Raises:
        CalmstreamError: of the first role that failed.
    """
    failures: list[BaseException] = []
    log = structlog.get_logger("calmstream.service")

    def live(role: Role) -> None:
        try:
            role.run(stop)
        except BaseException as error:  # noqa: BLE001 - handed to the main thread, not swallowed
            failures.append(error)
            log.error("role failed", role=role.name, error=str(error))  # noqa: TRY400 - one line
        finally:
            # A role that ends, for any reason, ends the process: its orchestrator then starts all
            # roles again.
            stop.set()

    threads = [threading.Thread(target=live, args=(role,), name=role.name) for role in roles]
    for thread in threads:
        thread.start()
    for thread in threads:
        # Joined with a time-out, since signal handlers run only between two calls.
        while thread.is_alive():
            thread.join(_JOIN_SECONDS)
    if failures:
        raise failures[0]


def _serve(
    roles: Sequence[Role], registry: CollectorRegistry, config: HttpConfig
) -> HealthServer | None:
    if config.http_port < 0:
        return None
    app = health_app(registry, [role.health for role in roles])
    try:
        server = HealthServer(app, config.http_host, config.http_port)
    except OSError as error:
        raise FatalError(
            f"cannot serve on {config.http_host}:{config.http_port}: {error.strerror}; set "
            "CALMSTREAM_HTTP_PORT to a free one, 0 for any, -1 for none"
        ) from error
    structlog.get_logger("calmstream.service").info(
        "serving health and metrics", host=config.http_host, port=server.port
    )
    return server


class _Signals:
    """SIGTERM and SIGINT set an event; the second one has its default effect."""

    _HANDLED = (signal.SIGTERM, signal.SIGINT)

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._before: dict[signal.Signals, Callable[..., Any] | int | None] = {}

    def __enter__(self) -> threading.Event:
        for number in self._HANDLED:
            self._before[number] = signal.signal(number, self._handle)
        return self._stop

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        for number in self._HANDLED:
            signal.signal(number, signal.SIG_DFL)
        self._stop.set()
