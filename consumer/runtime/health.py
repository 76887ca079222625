"""Health of the roles in this process, and the small web server that shows it.

``/livez``: every loop has turned recently, and every owned partition advances or is at its end.
``/readyz``: every role has what it needs and is not stopping. ``/metrics``: Prometheus.
Answers are 200 or 503 with one line per role; they never contain any part of a report.
"""

from __future__ import annotations

import io
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from socketserver import ThreadingMixIn
from typing import IO, Any, cast
from wsgiref.simple_server import ServerHandler, WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app

from broker.clock import Clock

DEFAULT_SILENCE_SECONDS = 60.0
_LONGEST_LINE = 1 << 16

WsgiApp = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


@dataclass(frozen=True, slots=True)
class Verdict:
    """One role's answer: whether it is well, and why or why not."""

    well: bool
    detail: str


class RoleHealth:
    """The health of one role. Safe for use from several threads.

    Args:
        name: of the role.
        clock: monotonic time.
        silence_seconds: a loop that has not turned for this long is not alive.
    """

    def __init__(
        self, name: str, clock: Clock, silence_seconds: float = DEFAULT_SILENCE_SECONDS
    ) -> None:
        self.name = name
        self._clock = clock
        self._silence = silence_seconds
        self._lock = threading.Lock()
        self._turned = clock.monotonic()
        self._stuck = ""
        self._not_ready = "starting"

    def turned(self) -> None:
        """Note that the loop is alive; called at least every few seconds."""
        with self._lock:
            self._turned = self._clock.monotonic()

    def stuck(self, what: str) -> None:
        """Note in words what makes no progress; empty when nothing does."""
        with self._lock:
            self._stuck = what

    def ready(self) -> None:
        """Note that the role does its work."""
        with self._lock:
            self._not_ready = ""

    def not_ready(self, why: str) -> None:
        """Note in words why the role cannot work now: starting, restoring, draining."""
        with self._lock:
            self._not_ready = why

    def live(self) -> Verdict:
        """Return whether the loop turns and everything makes progress."""
        with self._lock:
            silent = self._clock.monotonic() - self._turned
            stuck = self._stuck
        if silent > self._silence:
            return Verdict(False, f"no turn for {silent:.0f} s")
        return Verdict(not stuck, stuck or "turning")

    def readiness(self) -> Verdict:
        """Return whether the role does its work."""
        with self._lock:
            return Verdict(not self._not_ready, self._not_ready or "ready")


def health_app(registry: CollectorRegistry, roles: Iterable[RoleHealth]) -> WsgiApp:
    """Return the WSGI application with ``/metrics``, ``/livez`` and ``/readyz``."""
    metrics, known = make_wsgi_app(registry), tuple(roles)
    checks: Mapping[str, Callable[[RoleHealth], Verdict]] = {
        "/livez": RoleHealth.live,
        "/readyz": RoleHealth.readiness,
    }

    def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        if path == "/metrics":
            answer: Iterable[bytes] = metrics(environ, start_response)
            return answer
        if path not in checks:
            start_response("404 Not Found", [("Content-Type", "text/plain; charset=utf-8")])
            return [b"try /metrics, /livez or /readyz\n"]
        verdicts = {role.name: checks[path](role) for role in known}
        well = all(verdict.well for verdict in verdicts.values())
        start_response(
            "200 OK" if well else "503 Service Unavailable",
            [("Content-Type", "text/plain; charset=utf-8"), ("Cache-Control", "no-store")],
        )
        return [f"{name}: {verdict.detail}\n".encode() for name, verdict in verdicts.items()]

    return app


REQUEST_SECONDS = 10.0
"""Time for a request to arrive, and again for its answer to leave."""


class _Server(ThreadingMixIn, WSGIServer):
    """One thread per request, so that a slow client does not make the process look dead."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that disconnect or do not send; any other error is a defect."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Arriving(io.RawIOBase):
    """Reads a socket until a deadline; each wait lasts at most until then."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._deadline = time.monotonic() + REQUEST_SECONDS

    def readable(self) -> bool:
        """See the base class."""
        return True

    def readinto(self, buffer: Any) -> int:
        """See the base class.

        Raises:
            TimeoutError: the deadline is over.
        """
        self._connection.settimeout(max(self._deadline - time.monotonic(), 0.001))
        return self._connection.recv_into(buffer)


class _Answer(ServerHandler):
    """Writes an answer; a client that does not read it is ignored."""

    def log_exception(self, exc_info: Any) -> None:
        """See the base class."""
        if not isinstance(exc_info[1], OSError):
            super().log_exception(exc_info)


class _QuietHandler(WSGIRequestHandler):
    """Does not log requests, and does not wait for ever for one."""

    def setup(self) -> None:
        """See the base class; a request that trickles in has one deadline as a whole."""
        super().setup()
        self.rfile.close()
        self.rfile = io.BufferedReader(_Arriving(self.connection))

    def handle(self) -> None:
        """One request, as the base class handles it."""
        self.raw_requestline = self.rfile.readline(_LONGEST_LINE + 1)
        if len(self.raw_requestline) > _LONGEST_LINE:
            self.requestline = self.request_version = self.command = ""
            self.send_error(414)
        elif self.parse_request():
            self.connection.settimeout(REQUEST_SECONDS)
            environ, errors = self.get_environ(), self.get_stderr()
            body, out = cast("IO[bytes]", self.rfile), cast("IO[bytes]", self.wfile)
            answer = _Answer(body, out, errors, environ, multithread=True)
            answer.request_handler = self  # type: ignore[attr-defined]
            answer.run(self.server.get_app())  # type: ignore[attr-defined]

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Nothing: scrapes are not events."""


class HealthServer:
    """Serves a WSGI application from a thread of its own.

    Attributes:
        port: the one in use, also when 0 was asked for.

    Raises:
        OSError: the address cannot be bound.
    """

    def __init__(self, app: WsgiApp, host: str, port: int) -> None:
        self._server = make_server(host, port, app, _Server, _QuietHandler)
        self.port: int = self._server.server_port
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="calmstream-http", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)
