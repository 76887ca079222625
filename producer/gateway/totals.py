"""What becomes of reports behind their acceptance: counted, and passed on to metrics."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from typing import Protocol


class Failure(StrEnum):
    """Why a report was given up. A closed list: it is a metric label."""

    UNDELIVERED = "undelivered"
    """The broker refused its batch or did not acknowledge it within the budget."""

    UNENCODABLE = "unencodable"
    """It could not be written into a batch; the others of its batch were sent without it."""

    EXPIRED = "expired"
    """Its window ended before the broker acknowledged its batch."""

    DAMAGED = "damaged"
    """The disk of the spool has changed its batch."""

    SMALL = "small"
    """Fewer than ``min_batch`` reports of its group and window came, and the setting drops them."""


class Observer(Protocol):
    """Receives what happens to batches, never their content."""

    def sent(self, group: int, reports: int) -> None:
        """A batch was acknowledged."""

    def retried(self) -> None:
        """A batch is sent again."""

    def failed(self, reports: int, why: Failure) -> None:
        """A number of reports was given up."""

    def small(self, reports: int) -> None:
        """A batch below the least size left."""

    def in_flight(self, batches: int) -> None:
        """The number of unacknowledged batches has changed."""


class GatewayTotals:
    """An :class:`Observer` that counts and passes everything on. For one thread.

    A batch that failed may still be in the log, if only its acknowledgement was lost.
    """

    def __init__(self, observer: Observer | None = None) -> None:
        self._observer = observer
        self.batches_sent = self.reports_sent = self.retries = self.reports_small = 0
        self.failures: Counter[Failure] = Counter()
        """Reports that were given up, by reason."""

    @property
    def reports_failed(self) -> int:
        """Reports that were given up."""
        return self.failures.total()

    def sent(self, group: int, reports: int) -> None:
        self.batches_sent += 1
        self.reports_sent += reports
        if self._observer is not None:
            self._observer.sent(group, reports)

    def retried(self) -> None:
        self.retries += 1
        if self._observer is not None:
            self._observer.retried()

    def failed(self, reports: int, why: Failure) -> None:
        self.failures[why] += reports
        if self._observer is not None:
            self._observer.failed(reports, why)

    def small(self, reports: int) -> None:
        self.reports_small += reports
        if self._observer is not None:
            self._observer.small(reports)

    def in_flight(self, batches: int) -> None:
        if self._observer is not None:
            self._observer.in_flight(batches)
