"""Answers that are not a success: problem documents (RFC 9457) with a type from a closed list."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from calmstream.common.errors import CalmstreamError, DomainError, InvalidInput, RecoverableError
from calmstream.common.http import answer
from calmstream.common.http.answer import CONNECTION_KINDS, HttpReply, ReplyKind
from calmstream.consumer.read.ranges import NoAnswer


class Problem(StrEnum):
    """Why a request is not fulfilled. A closed list: ``docs/serving.md`` describes each."""

    NOT_HTTP = "not_http"
    HEAD_TOO_LARGE = "head_too_large"
    MALFORMED = "malformed"
    UNAUTHORIZED = "unauthorized"
    ORIGIN = "origin"
    NOT_FOUND = "not_found"
    UNKNOWN_PLAN = "unknown_plan"
    NOT_FINAL = "not_final"
    NO_REPORTS = "no_reports"
    METHOD = "method"
    NOT_KEPT = "not_kept"
    RETIRED = "retired"
    TOO_LARGE = "too_large"
    HOST = "host"
    REFUSED = "refused"
    INTERNAL = "internal"
    BUSY = "busy"
    SLOW = "slow"
    STARTING = "starting"
    UNAVAILABLE = "unavailable"
    UNREADABLE = "unreadable"
    STOPPING = "stopping"


KINDS: Mapping[str, ReplyKind] = {
    Problem.NOT_HTTP: CONNECTION_KINDS[Problem.NOT_HTTP],
    Problem.MALFORMED: ReplyKind(400, "The question is malformed."),
    Problem.UNAUTHORIZED: ReplyKind(
        401, "The token is missing or wrong.", headers=((b"www-authenticate", b"Bearer"),)
    ),
    Problem.ORIGIN: ReplyKind(403, "Pages of this origin may not ask."),
    Problem.NOT_FOUND: ReplyKind(404, "There is nothing at this address."),
    Problem.UNKNOWN_PLAN: ReplyKind(404, "This server has no such plan."),
    Problem.NOT_FINAL: ReplyKind(404, "The window is not final."),
    Problem.NO_REPORTS: ReplyKind(404, "There are no reports."),
    Problem.METHOD: ReplyKind(
        405, "This server only answers GET and HEAD.", headers=((b"allow", b"GET, HEAD"),)
    ),
    Problem.NOT_KEPT: ReplyKind(410, "The counts of a window are not kept."),
    Problem.RETIRED: ReplyKind(410, "The plan was retired and its results deleted."),
    Problem.TOO_LARGE: ReplyKind(413, "The table or the body is too large.", closes=True),
    Problem.HOST: ReplyKind(421, "This server has another name."),
    Problem.REFUSED: ReplyKind(422, "The question cannot be answered."),
    Problem.HEAD_TOO_LARGE: CONNECTION_KINDS[Problem.HEAD_TOO_LARGE],
    Problem.INTERNAL: ReplyKind(500, "The server has a defect."),
    Problem.BUSY: CONNECTION_KINDS[Problem.BUSY],
    Problem.SLOW: ReplyKind(503, "The answer is still being computed.", 2),
    Problem.STARTING: ReplyKind(503, "The results are still being read.", 2),
    Problem.UNAVAILABLE: ReplyKind(503, "The broker does not answer.", 5),
    Problem.UNREADABLE: ReplyKind(503, "The results cannot be read.", 30),
    Problem.STOPPING: ReplyKind(503, "The server is stopping.", 5),
}


class Refused(Exception):  # noqa: N818 - it is an outcome, not a defect
    """A request that gets a problem document."""

    def __init__(self, problem: Problem, detail: str = "") -> None:
        super().__init__(detail or KINDS[problem].title)
        self.problem = problem
        self.detail = detail

    def copy(self) -> Refused:
        """Return the same to raise: an exception that is raised again and again grows."""
        return Refused(self.problem, self.detail)


def refusal(error: CalmstreamError) -> Refused:
    if isinstance(error, NoAnswer):
        kind = Problem(error.why)
    elif isinstance(error, (DomainError, InvalidInput)):
        kind = Problem.REFUSED
    else:
        unavailable = isinstance(error, RecoverableError)
        kind = Problem.UNAVAILABLE if unavailable else Problem.UNREADABLE
    return Refused(kind, str(error))


def answer_to(problem: Problem, detail: str = "") -> HttpReply:
    return answer.problem(KINDS, problem, detail)
