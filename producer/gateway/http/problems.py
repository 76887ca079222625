"""The problems of a gateway: a closed list."""

from __future__ import annotations

from calmstream.common.http.answer import ConnectionProblem, Headers, ProblemReason, ReplyKind


class GatewayProblem(ProblemReason):
    """Why a request is not fulfilled. A closed list: ``docs/gateway.md`` describes each."""

    NOT_HTTP = "not_http", ConnectionProblem.NOT_HTTP.kind
    NO_REPORTS = "no_reports", ReplyKind(400, "The body holds no report.")
    NOT_JSON = "not_json", ReplyKind(400, "The body is not JSON.")
    UNAUTHORIZED = (
        "unauthorized",
        ReplyKind(
            401,
            "The application key is missing or unknown.",
            closes=True,
            headers=((b"www-authenticate", b"Bearer"),),
        ),
    )
    NOT_FOUND = "not_found", ReplyKind(404, "There is nothing at this address.", closes=True)
    UNKNOWN_PLAN = (
        "unknown_plan",
        ReplyKind(404, "This gateway does not have this plan.", closes=True),
    )
    METHOD = "method", ReplyKind(405, "This address does not allow this method.", closes=True)
    PLAN_OVER = "plan_over", ReplyKind(409, "The plan is over.", closes=True)
    TOO_LARGE = "too_large", ConnectionProblem.TOO_LARGE.kind
    TOO_MANY_REPORTS = "too_many_reports", ReplyKind(413, "The body holds too many reports.")
    CONTENT_TYPE = (
        "content_type",
        ReplyKind(415, "The media type is not one of reports.", closes=True),
    )
    CONTENT_ENCODING = (
        "content_encoding",
        ReplyKind(415, "Compressed bodies are not read.", closes=True),
    )
    REFUSED = "refused", ReplyKind(422, "No report was accepted.")
    QUOTA = "quota", ReplyKind(429, "The application key's quota of the window is used up.", 60)
    HEAD_TOO_LARGE = "head_too_large", ConnectionProblem.HEAD_TOO_LARGE.kind
    INTERNAL = "internal", ReplyKind(500, "The gateway has a defect.", closes=True)
    BUSY = "busy", ConnectionProblem.BUSY.kind
    STOPPING = "stopping", ReplyKind(503, "The gateway is stopping.", 5, closes=True)
    NOT_COUNTED = (
        "not_counted",
        ReplyKind(
            503,
            "Reports of this plan would not be counted; its operator has to act.",
            60,
            closes=True,
        ),
    )
    UNAVAILABLE = "unavailable", ReplyKind(503, "The gateway cannot store reports now.", 5)


class RefusedRequest(Exception):  # noqa: N818 - it is an outcome, not a defect
    """A request that gets a problem document."""

    def __init__(self, reason: GatewayProblem, detail: str = "", headers: Headers = ()) -> None:
        super().__init__()
        self.answer = reason.answer(detail, headers=headers)
