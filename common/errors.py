"""Every error that calmstream raises on purpose, and the complete list of rejection reasons.

Messages state what was expected and what came. They never contain a report or a record.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum


class CalmstreamError(Exception):
    """Base class of all errors of calmstream; its text can be shown to a person as it is."""


class InvalidInput(CalmstreamError):  # noqa: N818 - names the cause, not the defect
    """An input of a person cannot be used; nothing was done. Commands exit with code 2."""


class DomainError(InvalidInput):
    """An attribute, a label or a local record does not fit the domain."""


class PlanError(InvalidInput):
    """A plan document is malformed or contradicts itself, or a request cannot be planned."""


class RecoverableError(CalmstreamError):
    """The same call may succeed later; callers retry within a stated budget."""


class FatalError(CalmstreamError):
    """The process must stop, because a report could be lost or counted twice; says the remedy.

    Commands exit with code 1. ``topics`` names those that it concerns, where known: a process that
    serves many plans stops only the plans of these topics.
    """

    def __init__(self, message: str = "", topics: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.topics = frozenset(topics)


class MissingTopic(FatalError):  # noqa: N818 - names the cause, not the defect
    """A topic or a partition does not exist."""


class PlanRetired(FatalError):  # noqa: N818 - named for what was found
    """The plan was retired. A process that serves many plans gives it back."""


class BrokerUnreachable(FatalError):  # noqa: N818 - named for what was found
    """No broker has answered for the retry time. It concerns all plans of a process."""


class ForeignRecord(FatalError):  # noqa: N818 - named for what was found
    """A record of the state, snapshots or dead-letter topic that calmstream did not write.

    Readers of a topic skip it and report it; code that cannot go on without it ends the process.
    """


class Reason(StrEnum):
    """Why a record of a reports topic was refused. A new reason needs a new minor wire version.

    The first three can only come from a foreign or broken sender, the next six from one that
    violates the plan. The next four depend on the log's time and on earlier records.
    """

    UNDECODABLE = "undecodable"
    UNKNOWN_VERSION = "unknown_version"
    UNKNOWN_PLAN = "unknown_plan"
    OVERSIZED = "oversized"
    MALFORMED = "malformed"
    BAD_BATCH_ID = "bad_batch_id"
    WRONG_GROUP = "wrong_group"
    LENGTH_MISMATCH = "length_mismatch"
    OUT_OF_RANGE = "out_of_range"
    AFTER_END = "after_end"
    LATE = "late"
    EARLY = "early"
    DUPLICATE = "duplicate"
    OVER_LIMIT = "over_limit"


class Rejection(CalmstreamError):  # noqa: N818 - it is an outcome, not a defect
    """A record is not counted; ``reason`` is the metric label and the dead-letter header."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(f"{reason.value}: {detail}")
        self.reason = reason
        self.detail = detail
