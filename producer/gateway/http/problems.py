"""The problems of a gateway: a closed list."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import partial

from calmstream.common.http import answer
from calmstream.common.http.answer import CONNECTION_KINDS, Headers, ReplyKind


class GatewayProblem(StrEnum):
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


_KINDS: Mapping[str, ReplyKind] = {
    GatewayProblem.NOT_HTTP: CONNECTION_KINDS[GatewayProblem.NOT_HTTP],
    GatewayProblem.NO_REPORTS: ReplyKind(400, "The body holds no report."),
    GatewayProblem.NOT_JSON: ReplyKind(400, "The body is not JSON."),
    GatewayProblem.UNAUTHORIZED: ReplyKind(
        401,
        "The application key is missing or unknown.",
        closes=True,
        headers=((b"www-authenticate", b"Bearer"),),
    ),
    GatewayProblem.NOT_FOUND: ReplyKind(404, "There is nothing at this address.", closes=True),
    GatewayProblem.UNKNOWN_PLAN: ReplyKind(
        404, "This gateway does not have this plan.", closes=True
    ),
    GatewayProblem.METHOD: ReplyKind(405, "This address does not allow this method.", closes=True),
    GatewayProblem.PLAN_OVER: ReplyKind(409, "The plan is over.", closes=True),
    GatewayProblem.TOO_LARGE: CONNECTION_KINDS[GatewayProblem.TOO_LARGE],
    GatewayProblem.TOO_MANY_REPORTS: ReplyKind(413, "The body holds too many reports."),
    GatewayProblem.CONTENT_TYPE: ReplyKind(
        415, "The media type is not one of reports.", closes=True
    ),
    GatewayProblem.CONTENT_ENCODING: ReplyKind(415, "Compressed bodies are not read.", closes=True),
    GatewayProblem.REFUSED: ReplyKind(422, "No report was accepted."),
    GatewayProblem.QUOTA: ReplyKind(
        429, "The application key's quota of the window is used up.", 60
    ),
    GatewayProblem.HEAD_TOO_LARGE: CONNECTION_KINDS[GatewayProblem.HEAD_TOO_LARGE],
    GatewayProblem.INTERNAL: ReplyKind(500, "The gateway has a defect.", closes=True),
    GatewayProblem.BUSY: CONNECTION_KINDS[GatewayProblem.BUSY],
    GatewayProblem.STOPPING: ReplyKind(503, "The gateway is stopping.", 5, closes=True),
    GatewayProblem.NOT_COUNTED: ReplyKind(
        503,
        "Reports of this plan would not be counted; its operator has to act.",
        60,
        closes=True,
    ),
    GatewayProblem.UNAVAILABLE: ReplyKind(503, "The gateway cannot store reports now.", 5),
}


problem = partial(answer.problem, _KINDS)


class RefusedRequest(Exception):  # noqa: N818 - it is an outcome, not a defect
    """A request that gets a problem document."""

    def __init__(self, reason: GatewayProblem, detail: str = "", headers: Headers = ()) -> None:
        super().__init__()
        self.answer = problem(reason, detail, headers=headers)
