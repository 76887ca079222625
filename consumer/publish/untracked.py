"""The counts of windows that no current set rests on yet, as the counts topic has them."""

from __future__ import annotations

from collections.abc import Mapping

from calmstream.estimators.plan import Plan


class UntrackedCounts:
    """Holds the compressed counts of windows that were not added to the tracker yet."""

    def __init__(self, plan: Plan, *, on: bool) -> None:
        self._groups = len(plan.groups)
        # The only window of a plan is what is known now.
        self._on = on and plan.windows > 1
        self._through = -1
        self._records: dict[int, dict[int, bytes]] = {}

    def read(self, window: int, group: int, value: bytes) -> None:
        """Keep a record of counts; counts of windows that were added cannot change any more."""
        if self._on and window > self._through:
            self._records.setdefault(window, {})[group] = value

    def windows(self) -> list[int]:
        return [w for w, records in self._records.items() if len(records) == self._groups]

    def following(self) -> int | None:
        """Return the window after the one that was taken last; None if its records are missing."""
        window = self._through + 1
        return window if len(self._records.get(window, ())) == self._groups else None

    def take(self, window: int) -> Mapping[int, bytes]:
        """Return the records of a window by group, and forget it and all earlier ones."""
        found = self._records[window]
        self._through = window
        self._records = {w: r for w, r in self._records.items() if w > window}
        return found
