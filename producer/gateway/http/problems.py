"""The problems of a gateway: a closed list."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from calmstream.common.http import answer
from calmstream.common.http.answer import CONNECTION_KINDS, Answer, Headers, Kind


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
    NOT_COUNTED = "not_counted"
    UNAVAILABLE = "unavailable"


_KINDS: Mapping[str, Kind] = {
    Problem.NOT_HTTP: CONNECTION_KINDS[Problem.NOT_HTTP],
    Problem.NO_REPORTS: Kind(400, "The body holds no report."),
    Problem.NOT_JSON: Kind(400, "The body is not JSON."),
    Problem.UNAUTHORIZED: Kind(
        401,
        "The application key is missing or unknown.",
        closes=True,
        headers=((b"www-authenticate", b"Bearer"),),
    ),
    Problem.NOT_FOUND: Kind(404, "There is nothing at this address.", closes=True),
    Problem.UNKNOWN_PLAN: Kind(404, "This gateway does not have this plan.", closes=True),
    Problem.METHOD: Kind(405, "This address does not allow this method.", closes=True),
    Problem.PLAN_OVER: Kind(409, "The plan is over.", closes=True),
    Problem.TOO_LARGE: CONNECTION_KINDS[Problem.TOO_LARGE],
    Problem.TOO_MANY_REPORTS: Kind(413, "The body holds too many reports."),
    Problem.CONTENT_TYPE: Kind(415, "The media type is not one of reports.", closes=True),
    Problem.CONTENT_ENCODING: Kind(415, "Compressed bodies are not read.", closes=True),
    Problem.REFUSED: Kind(422, "No report was accepted."),
    Problem.QUOTA: Kind(429, "The application key's quota of the window is used up.", 60),
    Problem.HEAD_TOO_LARGE: CONNECTION_KINDS[Problem.HEAD_TOO_LARGE],
    Problem.INTERNAL: Kind(500, "The gateway has a defect.", closes=True),
    Problem.BUSY: CONNECTION_KINDS[Problem.BUSY],
    Problem.STOPPING: Kind(503, "The gateway is stopping.", 5, closes=True),
    Problem.NOT_COUNTED: Kind(
        503,
        "Reports of this plan would not be counted; its operator has to act.",
        60,
        closes=True,
    ),
    Problem.UNAVAILABLE: Kind(503, "The gateway cannot store reports now.", 5),
}


def problem(
    reason: Problem,
    detail: str = "",
    *,
    retry_after: int | None = None,
    headers: Headers = (),
    **members: Any,
) -> Answer:
    """Return the answer with a problem document; see `answer.problem`."""
    return answer.problem(
        _KINDS, reason, detail, retry_after=retry_after, headers=headers, **members
    )
