"""What the tables are now, from kept counts."""

from __future__ import annotations

import contextlib

from calmstream.common.errors import ForeignRecord
from calmstream.consumer.read.kept import KeptCounts
from calmstream.estimators.plan import Plan
from calmstream.estimators.tracking.tracker import Current, Tracker
from calmstream.estimators.wire.snapshot import Revision


class TrackedCounts:
    """Adds the kept windows to a tracker, in their order. Not safe for use from several threads.

    The first question takes time for all windows, later ones for those that are new.
    """

    def __init__(self, plan: Plan, kept: KeptCounts) -> None:
        self._plan = plan
        self._kept = kept
        self._tracker = Tracker(plan)
        self._added: dict[int, Revision] = {}

    def through(self, window: int) -> Current:
        """Return what is known of a kept window from all kept windows through it."""
        wanted = {w: self._kept.revision(w) for w in self._kept.windows() if w <= window}
        if any(wanted.get(w) != revision for w, revision in self._added.items()):
            # An earlier window was asked for, or a window was counted again.
            self._tracker, self._added = Tracker(self._plan), {}
        for number in sorted(wanted.keys() - self._added.keys()):
            # Damaged counts are left out, as a publisher does.
            with contextlib.suppress(ForeignRecord):
                self._tracker.add(number, self._kept.tallies(number)[0])
            self._added[number] = wanted[number]
        return self._tracker.current()
