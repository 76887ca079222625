"""The counts of the newest final windows as they were read from the counts topic."""

from __future__ import annotations

from estimators.plan import Plan
from estimators.tally import Tally
from estimators.wire.counts import CountsHeader, decode_counts

KEPT = 2
"""Number of windows that are kept, the newest ones: the next window is compared with the last."""


class RecentCounts:
    """Holds the compressed records of a few windows. Not safe for use from several threads.

    Args:
        plan: whose counts.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._records: dict[int, dict[int, bytes]] = {}

    def read(self, header: CountsHeader, value: bytes) -> None:
        """Keep a record, and forget those of older windows."""
        self._records.setdefault(header.window, {})[header.group] = value
        while len(self._records) > KEPT:
            del self._records[min(self._records)]

    def tallies(self, window: int) -> tuple[Tally, ...] | None:
        """Return the counts of a window, one tally per group; None where they are not all here."""
        found = self._records.get(window, {})
        if len(found) < len(self._plan.groups):
            return None
        return tuple(decode_counts(self._plan, found[g]).tally for g in sorted(found))
