"""The counts of windows for which something is still to be made, as the counts topic has them."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from calmstream.estimators.plan import Plan


class UnfinishedWindows:
    """Holds counts of the newest finished window and of all later ones, at most ``most``.

    Windows are finished in their order; ``through`` is the newest finished one.
    """

    def __init__(self, plan: Plan, *, on: bool, most: int = sys.maxsize) -> None:
        self.through = -1
        self._groups = len(plan.groups)
        self._on = on
        self._most = most
        self._records: dict[int, dict[int, bytes]] = {}

    def read(self, window: int, group: int, value: bytes) -> None:
        """Keep a record of counts, unless its window was left behind."""
        if not self._on or window < self.through:
            return
        self._records.setdefault(window, {})[group] = value
        if len(self._records) > self._most:
            self.finish(sorted(self._records)[-self._most])

    def finish(self, window: int) -> None:
        """Note that nothing is to be made of a window any more; forget those before it."""
        self.through = max(self.through, window)
        for old in [number for number in self._records if number < self.through]:
            del self._records[old]

    def waiting(self) -> list[int]:
        """Return the windows after the finished ones of which there are counts, ascending."""
        return sorted(window for window in self._records if window > self.through)

    def whole(self) -> list[int]:
        """Return those of which the counts of all groups are here."""
        return [w for w in self.waiting() if len(self._records[w]) == self._groups]

    def records(self, window: int) -> Mapping[int, bytes] | None:
        """Return the record of every group; None where they are not all here."""
        found = self._records.get(window, {})
        return dict(found) if len(found) == self._groups else None
