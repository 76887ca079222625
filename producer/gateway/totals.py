"""What becomes of reports behind their acceptance."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum


class Failure(StrEnum):
    """Why a report was given up. A closed list: it is a metric label."""

    UNDELIVERED = "undelivered"
    """The broker refused its batch or did not acknowledge it within the budget."""

    EXPIRED = "expired"
    """Its window ended before the broker acknowledged its batch."""

    DAMAGED = "damaged"
    """The disk of the spool has changed its batch."""

    DEFECT = "defect"
    """It cannot be encoded, although it was read and checked."""


class GatewayTotals:
    """Counts what happens to the batches of one plan, never their content. For one thread.

    A batch that failed may still be in the log, if only its acknowledgement was lost.
    """

    def __init__(self) -> None:
        self.batches_sent = self.reports_sent = self.retries = self.reports_small = 0
        self.failures: Counter[Failure] = Counter()
        """Reports that were given up, by reason."""

    @property
    def reports_failed(self) -> int:
        return self.failures.total()

    def sent(self, group: int, reports: int) -> None:  # noqa: ARG002 - metrics state the group
        self.batches_sent += 1
        self.reports_sent += reports

    def retried(self) -> None:
        """A batch is sent again."""
        self.retries += 1

    def failed(self, reports: int, why: Failure) -> None:
        self.failures[why] += reports

    def small(self, reports: int) -> None:
        """A batch below the least size left."""
        self.reports_small += reports

    def in_flight(self, batches: int) -> None:
        """The number of unacknowledged batches has changed."""
