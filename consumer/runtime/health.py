"""Health of the roles in this process, and the small web server that reports it.

A role is a part of the service with its own loop, such as a tally worker. ``/livez`` succeeds if
every loop has run recently and every owned partition advances or is at its end. ``/readyz``
succeeds if every role has what it needs and is not stopping. ``/metrics`` serves the metrics for
Prometheus. A response of the first two has status 200 or 503 and one line for each role; it never
contains any part of a report. A role of many plans is ready while some plans are in quarantine;
these have lines of their own, and ``Accept: application/json`` lists all plans.
"""

from __future__ import annotations

import io
import json
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

from calmstream.common.clock import Clock

DEFAULT_SILENCE_SECONDS = 60.0
"""A loop that has not run for this long is not alive; every round takes a few seconds at most."""

# Maximum length of a request's first line in bytes, as in Python's own web server.
_MAX_REQUEST_LINE = 1 << 16

WsgiApp = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
"""A web application by Python's WSGI interface."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a health check of one role.

    Attributes:
        well: whether the check succeeded.
        detail: the reason, in a few words.
    """

    well: bool
    detail: str


class RoleHealth:
    """The health of one role. Safe for use from several threads.

    Args:
        name: name of the role.
        clock: source of monotonic time.
        silence_seconds: a loop that has not run for this long is not alive.
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
        self._plans: Mapping[str, Verdict] = {}

    def turned(self) -> None:
        """Note that the loop has run once more; to be called at least every few seconds."""
        with self._lock:
            self._turned = self._clock.monotonic()

    def stuck(self, what: str) -> None:
        """Note what makes no progress, in words; an empty text means that everything does."""
        with self._lock:
            self._stuck = what

    def ready(self) -> None:
        """Note that the role does its work."""
        with self._lock:
            self._not_ready = ""

    def not_ready(self, why: str) -> None:
        """Note why the role cannot work now, in words such as "starting" or "restoring"."""
        with self._lock:
            self._not_ready = why

    def note_plans(self, verdicts: Mapping[str, Verdict]) -> None:
        """Note the state of each plan, for a role of many plans; no verdict of the role changes."""
        with self._lock:
            self._plans = verdicts

    @property
    def plans(self) -> Mapping[str, Verdict]:
        """The state of each plan; empty for a role of one plan."""
        with self._lock:
            return self._plans

    def live(self) -> Verdict:
        """Return whether the loop runs and everything makes progress."""
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
    metrics, all_roles = make_wsgi_app(registry), tuple(roles)
    checks: Mapping[str, Callable[[RoleHealth], Verdict]] = {
        "/livez": RoleHealth.live,
        "/readyz": RoleHealth.readiness,
    }

    def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        if path == "/metrics":
            response: Iterable[bytes] = metrics(environ, start_response)
            return response
        if path not in checks:
            start_response("404 Not Found", [("Content-Type", "text/plain; charset=utf-8")])
            return [b"try /metrics, /livez or /readyz\n"]
        verdicts = {role.name: (checks[path](role), role.plans) for role in all_roles}
        well = all(verdict.well for verdict, _ in verdicts.values())
        as_json = "application/json" in environ.get("HTTP_ACCEPT", "")
        kind = "application/json" if as_json else "text/plain; charset=utf-8"
        start_response(
            "200 OK" if well else "503 Service Unavailable",
            [("Content-Type", kind), ("Cache-Control", "no-store")],
        )
        return [_json(verdicts)] if as_json else _lines(verdicts)

    return app


Verdicts = Mapping[str, tuple[Verdict, Mapping[str, Verdict]]]
"""By role, its verdict and those of its plans."""


def _lines(verdicts: Verdicts) -> list[bytes]:
    """Return one line for each role, and one below it for each plan that is not well."""
    lines = []
    for name, (verdict, plans) in verdicts.items():
        lines.append(f"{name}: {verdict.detail}\n")
        lines += [f"  {plan}: {v.detail}\n" for plan, v in plans.items() if not v.well]
    return [line.encode() for line in lines]


def _json(verdicts: Verdicts) -> bytes:
    def fields(verdict: Verdict) -> dict[str, Any]:
        return {"well": verdict.well, "detail": verdict.detail}

    roles = {
        name: {**fields(verdict), "plans": {plan: fields(v) for plan, v in plans.items()}}
        for name, (verdict, plans) in verdicts.items()
    }
    return json.dumps({"roles": roles}).encode() + b"\n"


REQUEST_SECONDS = 10.0
"""Maximum time for a request to arrive, and again for its response to leave."""


class _Server(ThreadingMixIn, WSGIServer):
    """One thread per request, so that a slow client does not make the process look dead."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that disconnect or do not send; any other error is a defect."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _SocketUntilDeadline(io.RawIOBase):
    """Reads a socket until a deadline, which holds for the request as a whole.

    With a time limit for each read only, a client that sends a byte from time to time could keep
    the connection open without end.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._deadline = time.monotonic() + REQUEST_SECONDS

    def readable(self) -> bool:
        """See the base class."""
        return True

    def readinto(self, buffer: Any) -> int:
        """See the base class.

        Raises:
            TimeoutError: the deadline has passed.
        """
        self._connection.settimeout(max(self._deadline - time.monotonic(), 0.001))
        return self._connection.recv_into(buffer)


class _Response(ServerHandler):
    """Writes a response; errors of a client that does not read it are ignored."""

    def log_exception(self, exc_info: Any) -> None:
        """See the base class."""
        if not isinstance(exc_info[1], OSError):
            super().log_exception(exc_info)


class _QuietHandler(WSGIRequestHandler):
    """Handles requests without logging them, and with a deadline for each."""

    def setup(self) -> None:
        """See the base class; reading gets a deadline."""
        super().setup()
        self.rfile.close()
        self.rfile = io.BufferedReader(_SocketUntilDeadline(self.connection))

    def handle(self) -> None:
        """Handle one request, as the base class does, with a deadline for the response."""
        self.raw_requestline = self.rfile.readline(_MAX_REQUEST_LINE + 1)
        if len(self.raw_requestline) > _MAX_REQUEST_LINE:
            self.requestline = self.request_version = self.command = ""
            self.send_error(414)
        elif self.parse_request():
            self.connection.settimeout(REQUEST_SECONDS)
            environ, errors = self.get_environ(), self.get_stderr()
            body, out = cast("IO[bytes]", self.rfile), cast("IO[bytes]", self.wfile)
            response = _Response(body, out, errors, environ, multithread=True)
            response.request_handler = self  # type: ignore[attr-defined]
            response.run(self.server.get_app())  # type: ignore[attr-defined]

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Log nothing: requests of Prometheus come every few seconds and are not events."""


class HealthServer:
    """Serves a WSGI application on a thread of its own.

    Attributes:
        port: the port in use; if port 0 was requested, the port that the system chose.

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
