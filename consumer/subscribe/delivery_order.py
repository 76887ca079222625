"""Sorts the complete sets for a subscriber: finals and totals in the order of windows, each once.

A set is all tables of one window and kind (early, final or total).
"""

from __future__ import annotations

from collections.abc import Iterator

from calmstream.consumer.subscribe.assembler import Snapshot
from calmstream.estimators.wire.snapshot import Kind


class DeliveryOrder:
    """Delays a final or total until those of all earlier windows were delivered.

    The publisher writes the sets in order. But if two publishers write the same record, compaction
    keeps the newer copy only, so that a reader can read window W after window W + 1. A window that
    is missing at the end of the topic will not come later; then the other sets do not wait for it.

    Args:
        first: number of the first window to deliver.
        latest: whether to deliver, of the sets that are in the topic at the beginning, only the
            newest of each kind.
    """

    def __init__(self, first: int = 0, latest: bool = False) -> None:
        self._first = first
        self._skipping = latest
        self._held: dict[tuple[Kind, int], Snapshot] = {}
        self._next = {kind: first for kind in Kind if kind is not Kind.EARLY}

    def holds(self) -> bool:
        """Return whether a set waits until the end of the topic is reached."""
        return self._skipping or bool(self._held)

    def take(self, snapshot: Snapshot) -> Iterator[Snapshot]:
        """Take a complete set; yield the sets that can be delivered now."""
        kind, window = snapshot.kind, snapshot.window
        if window < self._first:
            return
        if self._skipping:
            self._held[kind, window] = snapshot
            if kind is Kind.FINAL:
                self._held.pop((Kind.EARLY, window), None)
        elif kind is Kind.EARLY:
            yield snapshot
        else:
            self._held[kind, window] = snapshot
            while (held := self._held.pop((kind, self._next[kind]), None)) is not None:
                self._next[kind] += 1
                yield held

    def at_end(self) -> Iterator[Snapshot]:
        """Yield the sets that can be delivered at the end of the topic."""
        held = sorted(self._held.values(), key=lambda s: (s.window, list(Kind).index(s.kind)))
        self._held.clear()
        if self._skipping:
            self._skipping = False
            newest = {snapshot.kind: snapshot for snapshot in held}
            held = [snapshot for snapshot in held if newest[snapshot.kind] is snapshot]
        for snapshot in held:
            if snapshot.kind is not Kind.EARLY:
                self._next[snapshot.kind] = snapshot.window + 1
            yield snapshot
