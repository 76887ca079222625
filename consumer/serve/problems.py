"""Answers that are not a success: problem documents (RFC 9457) with a type from a closed list."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import orjson

from calmstream.common.errors import CalmstreamError, DomainError, InvalidInput, RecoverableError
from calmstream.consumer.read.refusals import NoReports, NotFinal, NotKept, Withheld

PROBLEM_TYPE = "urn:calmstream:problem:"
MEDIA_TYPE = "application/problem+json"


class Problem(StrEnum):
    """Why a request is not fulfilled. A closed list: ``docs/serving.md`` describes each."""

    MALFORMED = "malformed"
    UNAUTHORIZED = "unauthorized"
    WITHHELD = "withheld"
    ORIGIN = "origin"
    NOT_FOUND = "not_found"
    UNKNOWN_PLAN = "unknown_plan"
    NOT_FINAL = "not_final"
    NO_REPORTS = "no_reports"
    METHOD = "method"
    NOT_ACCEPTABLE = "not_acceptable"
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


@dataclass(frozen=True, slots=True)
class Kind:
    """What all answers of one problem have in common.

    Attributes:
        status: of HTTP.
        title: one sentence for people.
        retry_after: seconds; 0 where the same request will not be fulfilled later.
    """

    status: int
    title: str
    retry_after: int = 0


KINDS: Mapping[Problem, Kind] = {
    Problem.MALFORMED: Kind(400, "The question is malformed."),
    Problem.UNAUTHORIZED: Kind(401, "The token is missing or wrong."),
    Problem.WITHHELD: Kind(403, "The plan withholds this table."),
    Problem.ORIGIN: Kind(403, "Pages of this origin may not ask."),
    Problem.NOT_FOUND: Kind(404, "There is nothing at this address."),
    Problem.UNKNOWN_PLAN: Kind(404, "This server has no such plan."),
    Problem.NOT_FINAL: Kind(404, "The window is not final."),
    Problem.NO_REPORTS: Kind(404, "There are no reports."),
    Problem.METHOD: Kind(405, "This server only answers GET and HEAD."),
    Problem.NOT_ACCEPTABLE: Kind(406, "No such format."),
    Problem.NOT_KEPT: Kind(410, "The counts of a window are not kept."),
    Problem.RETIRED: Kind(410, "The plan was retired and its results deleted."),
    Problem.TOO_LARGE: Kind(413, "The table is too large."),
    Problem.HOST: Kind(421, "This server has another name."),
    Problem.REFUSED: Kind(422, "The question cannot be answered."),
    Problem.INTERNAL: Kind(500, "The server has a defect."),
    Problem.BUSY: Kind(503, "Too many requests are in progress.", 1),
    Problem.SLOW: Kind(503, "The answer is still being computed.", 2),
    Problem.STARTING: Kind(503, "The results are still being read.", 2),
    Problem.UNAVAILABLE: Kind(503, "The broker does not answer.", 5),
    Problem.UNREADABLE: Kind(503, "The results cannot be read.", 30),
    Problem.STOPPING: Kind(503, "The server is stopping.", 5),
}


class Refused(Exception):  # noqa: N818 - it is an outcome, not a defect
    """A request that gets a problem document.

    Args:
        problem: from the closed list.
        detail: one sentence about this case.
    """

    def __init__(self, problem: Problem, detail: str = "") -> None:
        super().__init__(detail or KINDS[problem].title)
        self.problem = problem
        self.detail = detail


def refusal(error: CalmstreamError) -> Refused:
    """Return the problem that stands for an error of the packages below."""
    by_type = (
        (NotFinal, Problem.NOT_FINAL),
        (NotKept, Problem.NOT_KEPT),
        (NoReports, Problem.NO_REPORTS),
        (Withheld, Problem.WITHHELD),
        (DomainError, Problem.REFUSED),
        (InvalidInput, Problem.REFUSED),
        (RecoverableError, Problem.UNAVAILABLE),
    )
    kind = next((problem for error_type, problem in by_type if isinstance(error, error_type)), None)
    return Refused(kind or Problem.UNREADABLE, str(error))


def body_of(problem: Problem, detail: str = "") -> bytes:
    """Return the problem document."""
    kind = KINDS[problem]
    document = {"type": f"{PROBLEM_TYPE}{problem}", "title": kind.title, "status": kind.status}
    if detail:
        document["detail"] = detail
    return orjson.dumps(document)


def headers_of(problem: Problem) -> dict[str, str]:
    """Return the headers of the answer."""
    found = {"content-type": MEDIA_TYPE, "cache-control": "no-store"}
    if KINDS[problem].retry_after:
        found["retry-after"] = str(KINDS[problem].retry_after)
    if problem is Problem.UNAUTHORIZED:
        found["www-authenticate"] = "Bearer"
    if problem is Problem.METHOD:
        found["allow"] = "GET, HEAD"
    return found
