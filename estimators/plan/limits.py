"""Limits of a plan of version 2: how much one sender can put into one window.

Admission applies the limits. They are part of the plan, so that every worker and every replay
decides alike. Plans of version 1 have no limits.
"""

from __future__ import annotations

from dataclasses import dataclass

from estimators.errors import PlanError

MAX_BATCH_REPORTS = 1 << 16
"""Maximum number of reports that the wire format allows in a batch."""

MIN_BATCH_REPORTS = 1024
"""Minimum of the standard limit of reports per batch, so that small plans can use batches."""

MIN_BATCHES = 1 << 14
"""Minimum of the standard limit of batches; their ids take little memory."""

MAX_BATCHES = 1 << 32
"""Maximum of the limit of batches per partition and window, so that all languages can read it."""

BATCH_SHARE = 100
"""By default a batch may have one part in this number of the expected reports of its window."""

BATCHES_HEADROOM = 8
"""By default a partition accepts this number of times the batches that it would receive if every
expected report came in a batch of its own."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of what senders can put into one window.

    Attributes:
        batch_reports: maximum number of reports of one batch.
        batches: maximum number of batches that are accepted per partition and window; each takes
            the memory of its id while the window is open.
    """

    batch_reports: int
    batches: int

    def __post_init__(self) -> None:
        for name, maximum in (("batch_reports", MAX_BATCH_REPORTS), ("batches", MAX_BATCHES)):
            value = getattr(self, name)
            if not 1 <= value <= maximum:
                raise PlanError(f"limits.{name}: expected 1 to {maximum}, got {value}")

    def to_json(self) -> dict[str, int]:
        """Return the JSON object of a plan document."""
        return {"batch_reports": self.batch_reports, "batches": self.batches}


def standard_limits(largest: int, partitions: int) -> Limits:
    """Return the limits of a plan that states none; honest senders do not reach them.

    A batch of the largest group may have a hundredth of the group's expected reports in a window.
    Even with batches of one report, eight times the expected reports are accepted.

    Args:
        largest: number of reports that the largest group expects in a window.
        partitions: number of partitions of a group's topic.
    """
    reports = max(MIN_BATCH_REPORTS, min(largest // BATCH_SHARE, MAX_BATCH_REPORTS))
    batches = BATCHES_HEADROOM * -(-largest // partitions)
    return Limits(reports, max(MIN_BATCHES, min(batches, MAX_BATCHES)))
