"""Decides which set is next: finals and totals in the order of windows, then early sets."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from calmstream.consumer.metrics.publisher import WINDOWS_WAITING
from calmstream.consumer.publish.config import PublisherContext
from calmstream.consumer.publish.follower import TopicFollower
from calmstream.consumer.publish.merge import MergedWindow
from calmstream.consumer.subscribe.assembler import SetId, above
from calmstream.estimators.wire.snapshot import Kind

_QUICK_ATTEMPTS = 5
"""Number of times that a set is written without a pause if it is never read back complete. After
that, another program probably overwrites it, and a pause limits the load."""

REWRITE_SECONDS = 60.0
"""This pause."""


class _Sent(NamedTuple):
    """Offsets of a set's last records, how often it was written, and when it may be again."""

    manifest: int
    counts: int
    attempts: int
    again_at: float


class Schedule:
    """Compares what was read with what was written, to find the next set."""

    def __init__(self, context: PublisherContext, follower: TopicFollower) -> None:
        self._context = context
        self._follower = follower
        self._clock = context.clock
        self._config = context.config
        # Each final and total that was written and not read back yet.
        self._sent: dict[SetId, _Sent] = {}
        self._sent_early: dict[int, MergedWindow] = {}
        self._early_due: deque[int] = deque()
        self._next_refresh = self._clock.monotonic()

    def next(self) -> MergedWindow | None:
        """Return the counts of the set that is due first; None if none is due."""
        self._forget_completed()
        return self._next_closed() or self._next_early()

    def wanted(self, merged: MergedWindow) -> bool:
        """Return whether this set is still needed: not read back, and no newer one was written."""
        window, assembler = merged.window, self._follower.assembler
        sent = self._sent_early.get(window)
        if merged.kind is not Kind.EARLY:
            return not self._follower.completeness.complete(window, merged.kind)
        return (
            merged.reports > 0
            and not assembler.complete(window, Kind.FINAL)
            and above(merged.revision, assembler.revision(window))
            and (sent is None or above(merged.revision, sent.revision))
        )

    def written(self, merged: MergedWindow, manifest: int, counts: int) -> None:
        """Note a set that was acknowledged, with the offsets of its last records."""
        if merged.kind is Kind.EARLY:
            self._sent_early[merged.window] = merged
            return
        set_id, again_at = SetId(merged.window, merged.kind), self._clock.monotonic()
        attempts = self._sent[set_id].attempts + 1 if set_id in self._sent else 1
        if attempts >= _QUICK_ATTEMPTS:
            again_at += REWRITE_SECONDS
            self._context.log.error(
                "a set was written and not read back complete; does another program write to the "
                "snapshots topic?",
                window=merged.window,
                kind=merged.kind.value,
                attempts=attempts,
            )
        self._sent[set_id] = _Sent(manifest, counts, attempts, again_at)

    def _forget_completed(self) -> None:
        completeness = self._follower.completeness
        for closed in [one for one in self._sent if completeness.complete(*one)]:
            del self._sent[closed]
        for window in [window for window in self._sent_early if completeness.both(window)]:
            del self._sent_early[window]

    def _next_closed(self) -> MergedWindow | None:
        """Return the first final or total that is neither read back complete nor on its way."""
        merger, completeness = self._follower.merger, self._follower.completeness
        for window in merger.closed_windows():
            for kind in (Kind.FINAL, Kind.TOTAL):
                set_id = SetId(window, kind)
                if not (completeness.complete(window, kind) or self._on_its_way(set_id)):
                    return merger.closed(window, kind)
        return None

    def _on_its_way(self, set_id: SetId) -> bool:
        """Return whether a set was written and not read back yet, or must not be rewritten yet."""
        sent = self._sent.get(set_id)
        if sent is None:
            return False
        waits = self._clock.monotonic() < sent.again_at
        return waits or not self._follower.has_read(sent.manifest, sent.counts)

    def _unchanged(self, merged: MergedWindow) -> bool:
        """Return whether the early set that was written last and read back has the same counts.

        The revision alone can be higher: ticks and records of other windows move it.
        """
        sent = self._sent_early.get(merged.window)
        published = self._follower.assembler.revision(merged.window)
        return sent is not None and published == sent.revision and merged.counts == sent.counts

    def _next_early(self) -> MergedWindow | None:
        """Return the next early set of this round that is newer than the published one."""
        now, merger, plan = self._clock.monotonic(), self._follower.merger, self._context.plan
        if not self._early_due and now >= self._next_refresh:
            self._next_refresh = now + self._config.refresh(plan)
            self._early_due.extend(merger.open_windows() if plan.early else ())
            self._context.metrics.set(WINDOWS_WAITING, len(merger.waiting()))
        while self._early_due:
            merged = merger.early(self._early_due.popleft())
            if merged is not None and self.wanted(merged) and not self._unchanged(merged):
                return merged
        return None
