"""Complete answers, and problem documents (RFC 9457) with a reason from a closed list."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus
from typing import Any, Self

import orjson

PROBLEM_TYPE = "urn:calmstream:problem:"
MEDIA_TYPE = b"application/problem+json"

Headers = tuple[tuple[bytes, bytes], ...]


@dataclass(frozen=True, slots=True)
class ReplyKind:
    """What all problems of one reason have in common.

    ``retry_after`` is in seconds; 0 where the same request will not be fulfilled later. ``closes``
    stands where a part of the request may be unread.
    """

    status: int
    title: str
    retry_after: int = 0
    closes: bool = False
    headers: Headers = ()


@dataclass(frozen=True, slots=True)
class HttpReply:
    """A complete answer; ``problem`` is the reason where it is not a success."""

    status: int
    body: bytes = b""
    headers: Headers = ()
    problem: str | None = None

    def head(self) -> list[tuple[bytes, bytes]]:
        if self.status in {204, 304}:
            return list(self.headers)
        return [*self.headers, (b"content-length", str(len(self.body)).encode())]

    def raw(self) -> bytes:
        """Return the answer as it stands on a connection that is closed after it."""
        lines = [f"HTTP/1.1 {self.status} {HTTPStatus(self.status).phrase}".encode()]
        lines += [name + b": " + value for name, value in self.head()]
        return b"\r\n".join([*lines, b"", self.body])


class ProblemReason(StrEnum):
    """Base of the closed lists of problems: each reason has the kind of its answers."""

    def __new__(cls, reason: str, _kind: ReplyKind) -> Self:
        one = str.__new__(cls, reason)
        one._value_ = reason
        return one

    def __init__(self, _reason: str, kind: ReplyKind) -> None:
        self.kind = kind

    def answer(
        self,
        detail: str = "",
        *,
        retry_after: int | None = None,
        headers: Headers = (),
        **members: Any,
    ) -> HttpReply:
        """Return the answer with a problem document; ``detail`` holds nothing of the request."""
        of = self.kind
        document = {
            "type": f"{PROBLEM_TYPE}{self}",
            "title": of.title,
            "status": of.status,
            "reason": str(self),
        }
        if detail:
            document["detail"] = detail
        fixed: Headers = ((b"content-type", MEDIA_TYPE), (b"cache-control", b"no-store"))
        headers = fixed + headers + of.headers
        seconds = of.retry_after if retry_after is None else retry_after
        if seconds:
            headers += ((b"retry-after", str(seconds).encode()),)
        if of.closes:
            headers += ((b"connection", b"close"),)
        return HttpReply(of.status, orjson.dumps(document | members), headers, str(self))


class ConnectionProblem(ProblemReason):
    """What a connection finds before any application sees the request."""

    NOT_HTTP = "not_http", ReplyKind(400, "The request is not HTTP.", closes=True)
    HEAD_TOO_LARGE = "head_too_large", ReplyKind(431, "The headers are too large.", closes=True)
    TOO_LARGE = "too_large", ReplyKind(413, "The body is too large.", closes=True)
    BUSY = "busy", ReplyKind(503, "Too many requests are in progress.", 1, closes=True)
