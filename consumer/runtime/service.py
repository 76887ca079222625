"""Runs the roles of the service in one process, with threads, signals, log and web server."""

from __future__ import annotations

import ctypes
import logging
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Protocol

import structlog
from prometheus_client import CollectorRegistry

from calmstream.common.errors import FatalError
from calmstream.common.health import RoleHealth, health_app
from calmstream.common.http.server import ThreadServer
from calmstream.consumer.metrics.plan import ROLE_METRICS
from calmstream.consumer.runtime.config import HttpConfig
from calmstream.consumer.runtime.context import PlanWorker, StopRequested

# Maximum delay of a signal: Python runs signal handlers only between two waits.
_JOIN_SECONDS = 0.2


class Role(Protocol):
    """A part of the service that works until it is asked to stop, such as a tally worker."""

    @property
    def name(self) -> str:
        """The role's name in logs and health checks."""

    @property
    def health(self) -> RoleHealth:
        """The role's health, which the web server reports."""

    def run(self, stop: threading.Event) -> None:
        """Work until ``stop`` is set, then finish and return within a limited time."""


class Alone:
    """A role with the worker of one plan, which a fault ends."""

    def __init__(self, worker: PlanWorker, *, until_over: bool = False) -> None:
        self.name = worker.name
        self.health = worker.health
        self._worker = worker
        self._until_over = until_over

    def run(self, stop: threading.Event) -> None:
        worker = self._worker
        try:
            worker.start(stop)
            while not stop.is_set() and not (self._until_over and worker.over()):
                worker.turn()
        except StopRequested:
            pass
        except BaseException:
            worker.abandon()
            raise
        worker.finish()


def configure_logging(level: str = "info") -> None:
    """Set up the log: a JSON object in each line on stderr, never the content of records."""
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
    """Run the roles with signal handling and, unless the port is -1, with the web server.

    The first SIGTERM or SIGINT stops all roles, a second one the process. For the main thread.
    """
    keep_freed_memory()
    _measure(roles, registry)
    server = _serve(roles, registry, config)
    try:
        with stop_on_signals() as stop:
            run_roles(roles, stop)
    finally:
        if server is not None:
            server.close()


def run_roles(roles: Sequence[Role], stop: threading.Event) -> None:
    """Run each role on its own thread until all have ended; a role that ends stops the others."""
    failures: list[BaseException] = []
    log = structlog.get_logger("calmstream.service")

    def run_role(role: Role) -> None:
        try:
            role.run(stop)
        except BaseException as error:  # noqa: BLE001 - the main thread raises it again
            failures.append(error)
            log.error("role failed", role=role.name, error=str(error))  # noqa: TRY400 - one line
        finally:
            # If a role ends for any reason, the process ends, so that the process manager can
            # start all roles again.
            stop.set()

    threads = [threading.Thread(target=run_role, args=(role,), name=role.name) for role in roles]
    for thread in threads:
        thread.start()
    said: dict[str, bool] = {}
    for thread in threads:
        # The wait has a time limit, because signal handlers run only between two waits.
        while thread.is_alive():
            thread.join(_JOIN_SECONDS)
            _say_readiness(roles, said)
    if failures:
        raise failures[0]


def _say_readiness(roles: Sequence[Role], said: dict[str, bool]) -> None:
    log = structlog.get_logger("calmstream.service")
    for role in roles:
        verdict = role.health.readiness()
        if said.setdefault(role.name, not verdict.well) != verdict.well:
            said[role.name] = verdict.well
            if verdict.well:
                log.info("ready", role=role.name)
            else:
                log.warning("not ready", role=role.name, reason=verdict.detail)


def _measure(roles: Sequence[Role], registry: CollectorRegistry) -> None:
    ready, silent = (definition.register(registry) for definition in ROLE_METRICS)
    for role in roles:
        health = role.health
        ready.labels(role.name).set_function(lambda h=health: float(h.readiness().well))
        silent.labels(role.name).set_function(lambda h=health: h.silent_seconds)


def _serve(
    roles: Sequence[Role], registry: CollectorRegistry, config: HttpConfig
) -> ThreadServer | None:
    if config.http_port < 0:
        return None
    app = health_app(registry, [role.health for role in roles])
    try:
        server = ThreadServer(app, config.http_host, config.http_port, "health and metrics")
    except FatalError as error:
        remedy = "set CALMSTREAM_HTTP_PORT to a free one, 0 for any, -1 for none"
        raise FatalError(f"{error}; {remedy}") from None
    structlog.get_logger("calmstream.service").info(
        "serving health and metrics", host=config.http_host, port=server.port
    )
    return server


_HANDLED = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def stop_on_signals() -> Iterator[threading.Event]:
    """Let SIGTERM and SIGINT set an event; the second signal has its default effect."""
    stop = threading.Event()

    def handle(_number: int, _frame: FrameType | None) -> None:
        for number in _HANDLED:
            signal.signal(number, signal.SIG_DFL)
        stop.set()

    before = {number: signal.signal(number, handle) for number in _HANDLED}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# Parameters of mallopt, from glibc's malloc.h; other C libraries do not have this function.
_TRIM_THRESHOLD = -1
_MMAP_THRESHOLD = -3
# Freed memory that is kept: more than the buffers of one reader.
_KEPT_BYTES = 64 << 20
# Blocks of at most this size are kept. It is glibc's maximum; all buffers of the Kafka client are
# smaller.
_LARGEST_BYTES = 32 << 20


def keep_freed_memory() -> bool:
    """Keep at most 64 MiB of freed memory in each arena of the allocator, for the next use.

    By default glibc returns a freed fetch buffer to the system and requests it again, page by page.
    That costs CPU time, and more if workers share a machine and wait for each other in the kernel.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    mallopt.argtypes, mallopt.restype = (ctypes.c_int, ctypes.c_int), ctypes.c_int
    settings = ((_MMAP_THRESHOLD, _LARGEST_BYTES), (_TRIM_THRESHOLD, _KEPT_BYTES))
    return all(mallopt(name, value) == 1 for name, value in settings)
