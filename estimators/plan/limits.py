"""Limits of a plan of version 2: how much one sender can put into one window.

Admission applies the limits. They are part of the plan, so that every worker and every replay
decides alike. Plans of version 1 have no limits.
"""

from __future__ import annotations

from dataclasses import dataclass

from estimators.errors import PlanError

MOST_BATCH_REPORTS = 1 << 16
"""Most reports that the wire format allows in a batch."""

LEAST_BATCH_REPORTS = 1024
LEAST_BATCHES = 1 << 14
MOST_BATCHES = 1 << 32

BATCH_SHARE = 100
"""A batch may hold this part of the reports that its group and window expect."""

BATCHES_HEADROOM = 8
"""A partition remembers this many times the reports that its group, window and partition expect."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one sender, or a flood of them, can put into one window.

    Attributes:
        batch_reports: most reports of one batch.
        batches: most batches that are accepted per partition and window; each costs the memory of
            its id while the window is open.
    """

    batch_reports: int
    batches: int

    def __post_init__(self) -> None:
        for name, most in (("batch_reports", MOST_BATCH_REPORTS), ("batches", MOST_BATCHES)):
            value = getattr(self, name)
            if not 1 <= value <= most:
                raise PlanError(f"limits.{name}: expected 1 to {most}, got {value}")

    def to_json(self) -> dict[str, int]:
        """Return the JSON object of a plan document."""
        return {"batch_reports": self.batch_reports, "batches": self.batches}


def standard_limits(largest: int, partitions: int) -> Limits:
    """Return the limits of a plan that states none: generous to honest senders of any batch size.

    A batch of the largest group may hold a hundredth of the group's reports in a window. Batches of
    one report each fit eight times over.

    Args:
        largest: reports that the largest group expects in a window.
        partitions: partitions of a group's topic.
    """
    reports = max(LEAST_BATCH_REPORTS, min(largest // BATCH_SHARE, MOST_BATCH_REPORTS))
    batches = BATCHES_HEADROOM * -(-largest // partitions)
    return Limits(reports, max(LEAST_BATCHES, min(batches, MOST_BATCHES)))
