"""The counts of finals without tests of change, as they were read from the counts topic."""

from __future__ import annotations

from collections.abc import Mapping

from calmstream.estimators.plan import Plan
from calmstream.estimators.wire.counts import CountsHeader

MOST = 1000
"""Number of windows that are kept at most, the newest ones; the tests of others are left out."""


class UntestedCounts:
    """Holds compressed counts of the newest tested window and of all later ones.

    Tests are made in the order of windows. So a window at or before the newest tested one is never
    tested again. Not safe for use from several threads.

    Attributes:
        through: newest window with tests, or without them for good; -1 for none.
    """

    def __init__(self, plan: Plan, *, on: bool) -> None:
        self.through = -1
        self._groups = len(plan.groups)
        self._on = on
        self._records: dict[int, dict[int, bytes]] = {}

    def read(self, header: CountsHeader, value: bytes) -> None:
        """Keep a record of counts, if the tests can need it."""
        if not self._on or header.window < self.through:
            return
        self._records.setdefault(header.window, {})[header.group] = value
        if len(self._records) > MOST:
            self.tested(sorted(self._records)[-MOST])

    def tested(self, window: int) -> None:
        """Note that a window has tests, or gets none; forget the counts of those before it."""
        self.through = max(self.through, window)
        for old in [number for number in self._records if number < self.through]:
            del self._records[old]

    def next(self) -> int | None:
        """Return the first window with some counts after the tested ones; None without one."""
        return min((window for window in self._records if window > self.through), default=None)

    @property
    def waiting(self) -> int:
        """Number of windows with counts that have no tests yet, less than :data:`MOST`."""
        return sum(window > self.through for window in self._records)

    def records(self, window: int) -> Mapping[int, bytes] | None:
        """Return the record of every group; None where they are not all here."""
        found = self._records.get(window, {})
        return dict(found) if len(found) == self._groups else None
