"""Limits of a plan: how large a batch may be, and how many batches a window may have.

Without them, one sender could fill a window with a few batches, or a worker's memory with many.
They are part of the plan, so that every worker and every recount decides alike.
"""

from __future__ import annotations

from dataclasses import dataclass

from calmstream.common.errors import PlanError

MAX_BATCH_REPORTS = (1 << 16) - 1
MAX_BATCHES = 1 << 32  # an exact integer in all programming languages


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

    A batch may have a hundredth of the ``largest`` number of reports that a group expects in a
    window, at least 1024. A partition accepts eight batches for each expected report, at least
    2^14, whose ids take little memory.
    """
    reports = max(1024, min(largest // 100, MAX_BATCH_REPORTS))
    batches = 8 * -(-largest // partitions)
    return PlanLimits(reports, max(1 << 14, min(batches, MAX_BATCHES)))
