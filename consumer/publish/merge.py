"""Merges the records of the state topic into the counts of whole windows, over all partitions.

Records may come in any order, several times, and from workers that lost their partitions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from operator import add

from calmstream.common.errors import FatalError, ForeignRecord
from calmstream.estimators.plan import Plan
from calmstream.estimators.tally import Tally
from calmstream.estimators.wire.snapshot import Kind, Revision
from calmstream.estimators.wire.state import (
    ClosedWindow,
    PartitionState,
    WindowCount,
    decode_closed,
    decode_state,
    parse_key,
)


@dataclass(frozen=True, slots=True)
class MergedWindow:
    """The counts of one window over all partitions, for each group.

    ``revision`` has an offset for each input partition, by group and then partition: ``closed_at``
    if it has closed the window, else the ``next_offset`` of its checkpoint, else 0.
    """

    window: int
    kind: Kind
    revision: Revision
    counts: tuple[WindowCount, ...]

    @property
    def tallies(self) -> tuple[Tally, ...]:
        return tuple(count.tally for count in self.counts)

    @property
    def reports(self) -> int:
        return sum(tally.reports for tally in self.tallies)


class StateMerger:
    """Merges the records of a state topic. Not safe for use from several threads.

    A *closed record* holds the counts of a window that one partition has closed. A window is
    *settled* when its final and total are published; then only the offsets at which it was closed
    are kept. A *slot* is the consecutive number of an input partition, by group and then partition.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._slots = len(plan.groups) * plan.partitions
        self._zeros = [
            WindowCount(Tally.zero(len(group.views), mechanism.width))
            for group, mechanism in zip(plan.groups, plan.mechanisms, strict=True)
        ]
        self._states: dict[int, PartitionState] = {}
        self._closed: dict[int, dict[int, ClosedWindow]] = {}
        self._closed_at: dict[int, dict[int, int]] = {}
        self._settled: set[int] = set()

    def read(self, key: bytes, value: bytes | None) -> None:
        """Read one record of the state topic, or the tombstone that deletes a closed record."""
        group, partition, window = parse_key(key)
        if not (0 <= group < len(self._plan.groups) and 0 <= partition < self._plan.partitions):
            raise ForeignRecord(
                f"the state topic names group {group} partition {partition}, "
                "which the plan does not have"
            )
        slot = group * self._plan.partitions + partition
        if window is not None:
            self._read_closed(group, slot, window, value)
        elif value is not None:
            state = decode_state(self._plan, group, value)
            newest = self._states.get(slot)
            # The largest next_offset decides, not the order in the topic: a worker that no longer
            # owns the partition can write an older checkpoint late.
            if newest is None or state.next_offset > newest.next_offset:
                self._states[slot] = state

    def _read_closed(self, group: int, slot: int, window: int, value: bytes | None) -> None:
        if value is None:
            for kept in (self._closed_at, self._closed):
                slots = kept.get(window, {})
                slots.pop(slot, None)
                if not slots:
                    kept.pop(window, None)
            return
        closed = decode_closed(self._plan, group, value)
        if closed.window != window:
            raise ForeignRecord(f"a closed record of window {closed.window} under another key")
        offsets = self._closed_at.setdefault(window, {})
        if offsets.setdefault(slot, closed.closed_at) != closed.closed_at:
            raise FatalError(
                f"group {group}, window {window}: closed at input offset {offsets[slot]} and "
                f"at {closed.closed_at}; one log can close a window only once: was an input "
                "topic replaced? Count into a new namespace"
            )
        if window not in self._settled:
            self._closed.setdefault(window, {})[slot] = closed

    def settle(self, window: int) -> None:
        """Forget the counts of a window whose final and total are published."""
        self._settled.add(window)
        self._closed.pop(window, None)

    def open_windows(self) -> list[int]:
        """Return the windows with counts that some partition has not closed, ascending."""
        counted = {w for state in self._states.values() for w in state.open} | self._closed.keys()
        unsettled = counted - self._settled
        return sorted(w for w in unsettled if len(self._closed.get(w, ())) < self._slots)

    def closed_windows(self) -> list[int]:
        """Return the unsettled windows that every partition has closed, ascending."""
        return sorted(w for w, closed in self._closed.items() if len(closed) == self._slots)

    def early(self, window: int) -> MergedWindow | None:
        """Return the counts of a window so far; None if settled or closed, or a record lacks."""
        closed = self._closed.get(window, {})
        if window in self._settled or len(closed) == self._slots or self._lacks(window):
            return None
        counts: list[WindowCount] = []
        revision = []
        for slot in range(self._slots):
            state, zero = self._states.get(slot), self._zeros[slot // self._plan.partitions]
            if slot in closed:
                counts.append(closed[slot].count)
                revision.append(closed[slot].closed_at)
            elif state is None:
                counts.append(zero)
                revision.append(0)
            else:
                counts.append(state.open.get(window, zero))
                revision.append(state.next_offset)
        return MergedWindow(window, Kind.EARLY, tuple(revision), self._by_group(counts))

    def closed(self, window: int, kind: Kind) -> MergedWindow | None:
        """Return final or total; None until the closed records of all partitions were read."""
        closed = self._closed.get(window, {})
        if len(closed) < self._slots:
            return None
        records = [closed[slot] for slot in range(self._slots)]
        counts = [r.total if kind is Kind.TOTAL else r.count for r in records]
        revision = tuple(r.closed_at for r in records)
        return MergedWindow(window, kind, revision, self._by_group(counts))

    def _by_group(self, counts: list[WindowCount]) -> tuple[WindowCount, ...]:
        width = self._plan.partitions
        return tuple(reduce(add, counts[i : i + width]) for i in range(0, self._slots, width))

    def closed_records(self) -> Iterator[tuple[int, int, int, int]]:
        """Yield (group, partition, window, closed_at) for the closed records of settled windows."""
        for window in sorted(self._settled & self._closed_at.keys()):
            for slot, closed_at in sorted(self._closed_at[window].items()):
                group, partition = divmod(slot, self._plan.partitions)
                yield group, partition, window, closed_at

    def waiting(self) -> list[int]:
        """Return the windows of which a closed record is missing although a partition closed them.

        This is normal for a moment, because checkpoints and closed records are separate records.
        """
        return [window for window in self.open_windows() if self._lacks(window)]

    def _lacks(self, window: int) -> bool:
        closed = self._closed.get(window, {})
        return any(
            state.closed_through >= window and slot not in closed
            for slot, state in self._states.items()
        )
