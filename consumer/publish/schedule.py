"""Which set is published next: finals and totals in order, then early revisions."""

from __future__ import annotations

from collections import deque

from structlog.typing import FilteringBoundLogger

from broker.clock import Clock
from consumer.publish.config import PublisherConfig
from consumer.publish.follower import TopicFollower
from consumer.publish.measures import Measures
from consumer.publish.merge import MergedWindow
from consumer.subscribe.assembler import above
from estimators.plan import Plan
from estimators.wire.snapshot import Kind, Revision

_QUICK_ATTEMPTS = 5
"""So many times a set that is not found complete is written again at once; then with a pause."""


class Schedule:
    """Compares what was read with what was written. Decides nothing about the content of a set.

    Args:
        plan: what is published.
        follower: what was read.
        clock: for intervals.
        config: see :class:`PublisherConfig`.
        measures: shows how many windows wait.
        log: bound to the plan.
    """

    def __init__(
        self,
        plan: Plan,
        follower: TopicFollower,
        clock: Clock,
        config: PublisherConfig,
        measures: Measures,
        log: FilteringBoundLogger,
    ) -> None:
        self._plan = plan
        self._follower = follower
        self._clock = clock
        self._config = config
        self._measures = measures
        self._log = log
        # Of every final and total on its way: the offset of its manifest, and attempts so far.
        self._sent: dict[tuple[int, Kind], tuple[int, int]] = {}
        self._rewrite_at: dict[tuple[int, Kind], float] = {}
        self._sent_early: dict[int, Revision] = {}
        self._early_due: deque[int] = deque()
        self._next_refresh = clock.monotonic()

    def next(self) -> MergedWindow | None:
        """Return the counts of the set that is due first; None if none is due."""
        return self._next_closed() or self._next_early()

    def wanted(self, merged: MergedWindow) -> bool:
        """Return whether this set adds anything to what was read and to what was written."""
        window, assembler = merged.window, self._follower.assembler
        if merged.kind is not Kind.EARLY:
            return not assembler.complete(window, merged.kind)
        return (
            merged.reports > 0
            and not assembler.complete(window, Kind.FINAL)
            and above(merged.revision, assembler.revision(window))
            and above(merged.revision, self._sent_early.get(window))
        )

    def attempt(self, merged: MergedWindow) -> int:
        """Note that a set is about to be written; return which attempt this is, from 1."""
        place = (merged.window, merged.kind)
        attempts = self._sent.get(place, (0, 0))[1] + 1
        if attempts >= _QUICK_ATTEMPTS:
            self._rewrite_at[place] = self._clock.monotonic() + self._config.rewrite_seconds
            self._log.error(
                "a set was written and not found complete; who else writes to the snapshots topic?",
                window=merged.window,
                kind=merged.kind.value,
                attempts=attempts,
            )
        return attempts

    def written(self, merged: MergedWindow, offset: int, attempts: int) -> None:
        """Note that a set was acknowledged, with its manifest at this offset."""
        if merged.kind is Kind.EARLY:
            self._sent_early[merged.window] = merged.revision
        else:
            self._sent[merged.window, merged.kind] = (offset, attempts)

    def found(self, window: int, kind: Kind) -> None:
        """Note that a final or total was read back complete."""
        self._sent.pop((window, kind), None)
        self._rewrite_at.pop((window, kind), None)
        if self._follower.complete(window):
            self._sent_early.pop(window, None)

    def _next_closed(self) -> MergedWindow | None:
        """Return the first final or total that is neither found complete nor on its way."""
        merger, assembler = self._follower.merger, self._follower.assembler
        for window in merger.closed_windows():
            for kind, merge in ((Kind.FINAL, merger.final), (Kind.TOTAL, merger.total)):
                if not (assembler.complete(window, kind) or self._on_its_way(window, kind)):
                    return merge(window)
        return None

    def _on_its_way(self, window: int, kind: Kind) -> bool:
        """Return whether it was written and not read back yet, or waits to be written again."""
        place = (window, kind)
        sent = self._sent.get(place)
        if sent is None:
            return False
        waits = self._clock.monotonic() < self._rewrite_at.get(place, 0.0)
        return waits or self._follower.snapshots_position <= sent[0]

    def _next_early(self) -> MergedWindow | None:
        """Return the next early revision of this round that is above the one found."""
        now, merger = self._clock.monotonic(), self._follower.merger
        if not self._early_due and now >= self._next_refresh:
            self._next_refresh = now + self._config.refresh(self._plan)
            self._early_due.extend(merger.open_windows())
            self._measures.waiting(len(merger.waiting()))
        while self._early_due:
            merged = merger.early(self._early_due.popleft())
            if merged is not None and self.wanted(merged):
                return merged
        return None
