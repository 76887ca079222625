"""Checks every request before the application, and completes every answer.

A name of the server that is not known is refused: no page reaches it by DNS rebinding.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from typing import Any

import structlog

from calmstream.common.errors import InvalidInput
from calmstream.common.http.answer import HttpReply
from calmstream.common.http.sending import Send, send_answer
from calmstream.common.http.server import defect
from calmstream.consumer.serve.metrics import ServeMetrics
from calmstream.consumer.serve.problems import Problem

App = Callable[[Any, Any, Any], Awaitable[None]]

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
"""The content security policy: the page loads from this server alone."""

SECURITY_HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
)

_CORS = (
    (b"access-control-allow-methods", b"GET, HEAD"),
    (b"access-control-allow-headers", b"authorization, if-none-match"),
    (b"access-control-max-age", b"86400"),
)
_ORIGIN = re.compile(r"https?://[A-Za-z0-9.\-\[\]:]+")
_HOST = re.compile(r"\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+")
_LOG = structlog.get_logger("calmstream.serve")
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


class Guard:
    """The outermost application."""

    def __init__(
        self,
        app: App,
        *,
        hosts: Iterable[str],
        origins: Iterable[str],
        token: str | None,
        metrics: ServeMetrics,
    ) -> None:
        self._app = app
        self._hosts = frozenset(map(_host, (*LOOPBACK, *hosts)))
        self._origins = frozenset(map(_origin, origins))
        self._token = None if token is None else token.encode()
        self._metrics = metrics
        self.stopping = False

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        headers: dict[bytes, bytes] = dict(scope["headers"])
        origin = headers.get(b"origin")
        out = _Completing(send, scope["method"] == "HEAD", self._cors(origin))
        problem = self._refusal(scope, headers)
        self._metrics.answered()
        if problem is not None:
            self._metrics.refused(problem)
            await send_answer(out, problem.answer())
            return
        if scope["method"] == "OPTIONS":
            await send_answer(out, HttpReply(204, headers=_CORS))  # a browser: may a page ask?
            return
        try:
            await self._app({**scope, "method": "GET"}, receive, out)
        except Exception as error:
            # The kind and the place of the error, nothing of the request.
            _LOG.error("defect", **defect(error))
            if not out.complete:
                raise  # the server closes the connection

    def _refusal(self, scope: Any, headers: Mapping[bytes, bytes]) -> Problem | None:
        wrong = self._wrong(scope["method"], headers)
        if wrong is not None:
            return wrong
        if self.stopping:
            return Problem.STOPPING
        if scope["method"] == "OPTIONS" or self._authorized(scope["path"], headers):
            return None
        return Problem.UNAUTHORIZED

    def _wrong(self, method: str, headers: Mapping[bytes, bytes]) -> Problem | None:
        host = headers.get(b"host", b"").decode("latin-1").lower()
        if re.sub(r":[0-9]{1,5}$", "", host) not in self._hosts:
            return Problem.HOST
        origin = headers.get(b"origin")
        if origin is not None and not self._allowed(origin.decode("latin-1"), host):
            return Problem.ORIGIN
        if method in {"GET", "HEAD"} or (method == "OPTIONS" and origin is not None):
            return None
        return Problem.METHOD

    def _allowed(self, origin: str, host: str) -> bool:
        own = origin.lower() in {f"http://{host}", f"https://{host}"}
        return own or origin.lower() in self._origins

    def _authorized(self, path: str, headers: Mapping[bytes, bytes]) -> bool:
        if self._token is None or not path.startswith("/v1"):
            return True
        scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
        return scheme.lower() == b"bearer" and hmac.compare_digest(given.strip(), self._token)

    def _cors(self, origin: bytes | None) -> tuple[tuple[bytes, bytes], ...]:
        if not self._origins:
            return ()
        vary = ((b"vary", b"origin"),)
        if origin is None or origin.decode("latin-1").lower() not in self._origins:
            return vary
        exposed = (b"access-control-expose-headers", b"etag, retry-after")
        return ((b"access-control-allow-origin", origin), exposed, *vary)


class _Completing:
    """Adds headers to an answer, and leaves its body out where only the head is asked for."""

    def __init__(self, send: Send, head: bool, extra: tuple[tuple[bytes, bytes], ...]) -> None:
        self._send = send
        self._head = head
        self._extra = (*SECURITY_HEADERS, *extra)
        self.complete = False

    async def __call__(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *self._extra]}
        elif self._head and message["type"] == "http.response.body":
            message = {**message, "body": b""}
        await self._send(message)
        if message["type"] == "http.response.body":
            self.complete = not message.get("more_body", False)


def _host(text: str) -> str:
    if _HOST.fullmatch(text) is None:
        raise InvalidInput(f"--allow-host: expected a name such as results.example.org, got {text}")
    return text.lower()


def _origin(text: str) -> str:
    if _ORIGIN.fullmatch(text) is None:
        raise InvalidInput(
            f"--allow-origin: expected an origin such as https://example.org, got {text}"
        )
    return text.lower()
