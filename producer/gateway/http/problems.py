"""Answers that are not a success: problem documents (RFC 9457) with a reason from a closed list."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import orjson

PROBLEM_TYPE = "urn:calmstream:problem:"
MEDIA_TYPE = b"application/problem+json"

Headers = tuple[tuple[bytes, bytes], ...]


class Problem(StrEnum):
    """Why a request is not fulfilled. A closed list: ``docs/gateway.md`` describes each."""

    NOT_HTTP = "not_http"
    NO_REPORTS = "no_reports"
    NOT_JSON = "not_json"
    UNAUTHORIZED = "unauthorized"
    NOT_FOUND = "not_found"
    UNKNOWN_PLAN = "unknown_plan"
    METHOD = "method"
    PLAN_OVER = "plan_over"
    TOO_LARGE = "too_large"
    TOO_MANY_REPORTS = "too_many_reports"
    CONTENT_TYPE = "content_type"
    CONTENT_ENCODING = "content_encoding"
    REFUSED = "refused"
    QUOTA = "quota"
    HEAD_TOO_LARGE = "head_too_large"
    INTERNAL = "internal"
    BUSY = "busy"
    STOPPING = "stopping"
    UNAVAILABLE = "unavailable"


@dataclass(frozen=True, slots=True)
class _Kind:
    status: int
    title: str
    retry_after: int = 0
    """Seconds; 0 where the same request will not be fulfilled later."""

    closes: bool = False
    """Whether the connection is closed, because a part of the request may not have been read."""


_KINDS = {
    Problem.NOT_HTTP: _Kind(400, "The request is not HTTP.", 0, True),
    Problem.NO_REPORTS: _Kind(400, "The body holds no report."),
    Problem.NOT_JSON: _Kind(400, "The body is not JSON."),
    Problem.UNAUTHORIZED: _Kind(401, "The application key is missing or unknown.", 0, True),
    Problem.NOT_FOUND: _Kind(404, "There is nothing at this address.", 0, True),
    Problem.UNKNOWN_PLAN: _Kind(404, "This gateway does not have this plan.", 0, True),
    Problem.METHOD: _Kind(405, "This address does not allow this method.", 0, True),
    Problem.PLAN_OVER: _Kind(409, "The plan is over.", 0, True),
    Problem.TOO_LARGE: _Kind(413, "The body is too large.", 0, True),
    Problem.TOO_MANY_REPORTS: _Kind(413, "The body holds too many reports."),
    Problem.CONTENT_TYPE: _Kind(415, "The media type is not one of reports.", 0, True),
    Problem.CONTENT_ENCODING: _Kind(415, "Compressed bodies are not read.", 0, True),
    Problem.REFUSED: _Kind(422, "No report was accepted."),
    Problem.QUOTA: _Kind(429, "The application key's quota of the window is used up.", 60),
    Problem.HEAD_TOO_LARGE: _Kind(431, "The headers are too large.", 0, True),
    Problem.INTERNAL: _Kind(500, "The gateway has a defect.", 0, True),
    Problem.BUSY: _Kind(503, "Too many requests are in progress.", 1, True),
    Problem.STOPPING: _Kind(503, "The gateway is stopping.", 5, True),
    Problem.UNAVAILABLE: _Kind(503, "The gateway cannot store reports now.", 5),
}


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete answer.

    Attributes:
        status: of HTTP.
        body: all of it.
        headers: beside the length of the body.
        problem: why it is not a success; None where it is one.
    """

    status: int
    body: bytes
    headers: Headers = ()
    problem: Problem | None = None


def problem(
    reason: Problem,
    detail: str = "",
    *,
    retry_after: int | None = None,
    headers: Headers = (),
    **members: Any,
) -> Answer:
    """Return the answer with a problem document.

    Args:
        reason: from the closed list.
        detail: one line about this case; nothing of the request's content.
        retry_after: seconds; None for the reason's own.
        headers: further ones.
        **members: further members of the document.
    """
    kind = _KINDS[reason]
    document = {
        "type": f"{PROBLEM_TYPE}{reason}",
        "title": kind.title,
        "status": kind.status,
        "reason": reason.value,
    }
    if detail:
        document["detail"] = detail
    seconds = kind.retry_after if retry_after is None else retry_after
    if seconds:
        headers += ((b"retry-after", str(seconds).encode()),)
    if kind.closes:
        headers += ((b"connection", b"close"),)
    if reason is Problem.UNAUTHORIZED:
        headers += ((b"www-authenticate", b"Bearer"),)
    headers = ((b"content-type", MEDIA_TYPE), (b"cache-control", b"no-store"), *headers)
    return Answer(kind.status, orjson.dumps(document | members), headers, reason)


def status_of(reason: Problem) -> int:
    """Return the HTTP status of a problem."""
    return _KINDS[reason].status
