"""Accounts of reports: at every moment each accepted report is sent, failed or waiting."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Protocol


class Failure(StrEnum):
    """Why a report was given up. A closed list: it is a metric label."""

    UNDELIVERED = "undelivered"
    """The broker refused its batch or did not acknowledge it within the budget."""

    UNENCODABLE = "unencodable"
    """It could not be written into a batch; the others of its batch were sent without it."""

    EXPIRED = "expired"
    """Its window ended before the broker acknowledged its batch."""

    SMALL = "small"
    """Fewer than ``min_batch`` reports of its group and window came, and the setting drops them."""

    ABANDONED = "abandoned"
    """The thread that sends ended because of a defect."""


@dataclass(frozen=True, slots=True)
class Totals:
    """Outcomes of everything handed over so far; ``failed`` means given up.

    ``reports_taken == reports_sent + reports_failed + reports_waiting`` always holds. A batch that
    failed may still be in the log, if only its acknowledgement was lost.

    Attributes:
        batches_sent: acknowledged.
        reports_sent: in acknowledged batches.
        batches_failed: given up.
        reports_failed: given up, in batches or alone.
        retries: sends repeated.
        reports_taken: everything that was ever handed over, the spool's included.
        reports_small: that left in a batch below the least size, because their window ended or the
            batcher was closed; sent or not.
        failures: ``reports_failed`` by reason; reasons that never occurred are left out.
    """

    batches_sent: int = 0
    reports_sent: int = 0
    batches_failed: int = 0
    reports_failed: int = 0
    retries: int = 0
    reports_taken: int = 0
    reports_small: int = 0
    failures: Mapping[Failure, int] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def reports_waiting(self) -> int:
        """Neither acknowledged nor given up yet."""
        return self.reports_taken - self.reports_sent - self.reports_failed


class Observer(Protocol):
    """Receives what happens to batches, never their content."""

    def sent(self, group: int, reports: int) -> None:
        """A batch was acknowledged."""

    def retried(self, group: int) -> None:
        """A batch is sent again."""

    def failed(self, group: int, reports: int, why: Failure) -> None:
        """A batch, or a number of reports, was given up."""

    def small(self, group: int, reports: int) -> None:
        """A batch below the least size left."""

    def in_flight(self, batches: int) -> None:
        """The number of unacknowledged batches has changed."""


class Unobserved:
    """An :class:`Observer` that ignores everything."""

    def sent(self, group: int, reports: int) -> None:
        """See :class:`Observer`."""

    def retried(self, group: int) -> None:
        """See :class:`Observer`."""

    def failed(self, group: int, reports: int, why: Failure) -> None:
        """See :class:`Observer`."""

    def small(self, group: int, reports: int) -> None:
        """See :class:`Observer`."""

    def in_flight(self, batches: int) -> None:
        """See :class:`Observer`."""


class Accounts:
    """Counts reports by group and passes events on. Safe for use from several threads.

    It is itself an :class:`Observer`. Memory: three numbers per group in use.

    Args:
        observer: receives every event but :meth:`taken`.
    """

    def __init__(self, observer: Observer | None = None) -> None:
        self._observer = observer or Unobserved()
        self._lock = threading.Lock()
        self._taken: Counter[int] = Counter()
        self._sent: Counter[int] = Counter()
        self._failed: Counter[int] = Counter()
        self._failures: Counter[Failure] = Counter()
        self._batches_sent = self._batches_failed = self._retries = self._small = 0

    def totals(self) -> Totals:
        """Return all counts at one moment. O(groups)."""
        with self._lock:
            return Totals(
                batches_sent=self._batches_sent,
                reports_sent=self._sent.total(),
                batches_failed=self._batches_failed,
                reports_failed=self._failed.total(),
                retries=self._retries,
                reports_taken=self._taken.total(),
                reports_small=self._small,
                failures=MappingProxyType(dict(self._failures)),
            )

    def unsettled(self) -> dict[int, int]:
        """Return the waiting reports by group, without groups that have none."""
        with self._lock:
            left = {g: n - self._sent[g] - self._failed[g] for g, n in self._taken.items()}
        return {group: reports for group, reports in left.items() if reports}

    def taken(self, group: int, reports: int) -> None:
        """Count reports that were handed over."""
        with self._lock:
            self._taken[group] += reports

    def sent(self, group: int, reports: int) -> None:
        """See :class:`Observer`."""
        with self._lock:
            self._batches_sent += 1
            self._sent[group] += reports
        self._observer.sent(group, reports)

    def retried(self, group: int) -> None:
        """See :class:`Observer`."""
        with self._lock:
            self._retries += 1
        self._observer.retried(group)

    def failed(self, group: int, reports: int, why: Failure) -> None:
        """See :class:`Observer`."""
        with self._lock:
            self._batches_failed += why is Failure.UNDELIVERED
            self._failed[group] += reports
            self._failures[why] += reports
        self._observer.failed(group, reports, why)

    def small(self, group: int, reports: int) -> None:
        """See :class:`Observer`."""
        with self._lock:
            self._small += reports
        self._observer.small(group, reports)

    def in_flight(self, batches: int) -> None:
        """See :class:`Observer`."""
        self._observer.in_flight(batches)
