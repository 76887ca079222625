"""Answers that are not a success: problem documents (RFC 9457) with a type from a closed list."""

from __future__ import annotations

from calmstream.common.errors import CalmstreamError, InvalidInput, RecoverableError
from calmstream.common.http.answer import ConnectionProblem, ProblemReason, ReplyKind
from calmstream.consumer.read.ranges import NoAnswer


class Problem(ProblemReason):
    """Why a request is not fulfilled. A closed list: ``docs/serving.md`` describes each."""

    NOT_HTTP = "not_http", ConnectionProblem.NOT_HTTP.kind
    MALFORMED = "malformed", ReplyKind(400, "The question is malformed.")
    UNAUTHORIZED = (
        "unauthorized",
        ReplyKind(
            401, "The token is missing or wrong.", headers=((b"www-authenticate", b"Bearer"),)
        ),
    )
    ORIGIN = "origin", ReplyKind(403, "Pages of this origin may not ask.")
    NOT_FOUND = "not_found", ReplyKind(404, "There is nothing at this address.")
    UNKNOWN_PLAN = "unknown_plan", ReplyKind(404, "This server has no such plan.")
    NOT_FINAL = "not_final", ReplyKind(404, "The window is not final.")
    NO_REPORTS = "no_reports", ReplyKind(404, "There are no reports.")
    METHOD = (
        "method",
        ReplyKind(
            405, "This server only answers GET and HEAD.", headers=((b"allow", b"GET, HEAD"),)
        ),
    )
    NOT_KEPT = "not_kept", ReplyKind(410, "The counts of a window are not kept.")
    RETIRED = "retired", ReplyKind(410, "The plan was retired and its results deleted.")
    TOO_LARGE = "too_large", ReplyKind(413, "The table or the body is too large.", closes=True)
    HOST = "host", ReplyKind(421, "This server has another name.")
    REFUSED = "refused", ReplyKind(422, "The question cannot be answered.")
    HEAD_TOO_LARGE = "head_too_large", ConnectionProblem.HEAD_TOO_LARGE.kind
    INTERNAL = "internal", ReplyKind(500, "The server has a defect.")
    BUSY = "busy", ConnectionProblem.BUSY.kind
    SLOW = "slow", ReplyKind(503, "The answer is still being computed.", 2)
    STARTING = "starting", ReplyKind(503, "The results are still being read.", 2)
    UNAVAILABLE = "unavailable", ReplyKind(503, "The broker does not answer.", 5)
    UNREADABLE = "unreadable", ReplyKind(503, "The results cannot be read.", 30)
    STOPPING = "stopping", ReplyKind(503, "The server is stopping.", 5)


class Refused(Exception):  # noqa: N818 - it is an outcome, not a defect
    """A request that gets a problem document."""

    def __init__(self, problem: Problem, detail: str = "") -> None:
        super().__init__(detail or problem.kind.title)
        self.problem = problem
        self.detail = detail

    def copy(self) -> Refused:
        """Return the same to raise: an exception that is raised again and again grows."""
        return Refused(self.problem, self.detail)


def refusal(error: CalmstreamError) -> Refused:
    if isinstance(error, NoAnswer):
        kind = Problem[error.why.upper()]
    elif isinstance(error, InvalidInput):
        kind = Problem.REFUSED
    else:
        unavailable = isinstance(error, RecoverableError)
        kind = Problem.UNAVAILABLE if unavailable else Problem.UNREADABLE
    return Refused(kind, str(error))
