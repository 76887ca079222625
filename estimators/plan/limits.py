"""Limits of a plan: how large a batch may be, and how many batches a window may have.

Without them, one sender could fill a window with a few batches, or a worker's memory with many.
They are part of the plan, so that every worker and every recount decides alike.
"""

from __future__ import annotations

from dataclasses import dataclass

from calmstream.common.errors import PlanError

MAX_BATCH_REPORTS = (1 << 16) - 1
MIN_BATCH_REPORTS = 1024
"""The default limit of reports per batch is at least this, so that small plans can use batches."""

MIN_BATCHES = 1 << 14
"""The default limit of batches is at least this; the ids of so many batches take little memory."""

MAX_BATCHES = 1 << 32
"""Maximum number of batches per partition and window that a plan may allow. It is an exact integer
in all programming languages."""

BATCH_SHARE = 100
"""By default a batch may have at most 1 / `BATCH_SHARE` of the reports that its group expects in a
window."""

BATCHES_HEADROOM = 8
"""By default a partition accepts this many batches for each report that it expects in a window."""


@dataclass(frozen=True, slots=True)
class PlanLimits:
    """``batches`` per partition and window; each takes memory while the window is open."""

    batch_reports: int
    batches: int

    def __post_init__(self) -> None:
        for name, maximum in (("batch_reports", MAX_BATCH_REPORTS), ("batches", MAX_BATCHES)):
            value = getattr(self, name)
            if not 1 <= value <= maximum:
                raise PlanError(f"limits.{name}: expected 1 to {maximum}, got {value}")

    def to_json(self) -> dict[str, int]:
        return {"batch_reports": self.batch_reports, "batches": self.batches}


STANDARD = PlanLimits(MAX_BATCH_REPORTS, MAX_BATCHES)
"""What a new plan is given that states no limits; the plan then has those of `standard_limits`."""


def standard_limits(largest: int, partitions: int) -> PlanLimits:
    """Return the limits of a plan that states none; honest senders do not reach them.

    ``largest``: reports that the largest group expects in a window.
    """
    reports = max(MIN_BATCH_REPORTS, min(largest // BATCH_SHARE, MAX_BATCH_REPORTS))
    batches = BATCHES_HEADROOM * -(-largest // partitions)
    return PlanLimits(reports, max(MIN_BATCHES, min(batches, MAX_BATCHES)))
