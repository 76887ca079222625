"""From the state topic to whole windows: the sum over all partitions of the plan, with its vector.

It has no clock and no broker. Records may come in any order, repeatedly, and from workers that no
longer own their partitions; the results depend only on the set of records read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from operator import add

from estimators.errors import FatalError, ForeignRecord
from estimators.plan import Plan
from estimators.tally import Tally
from estimators.wire.snapshot import Kind, Revision
from estimators.wire.state import (
    ClosedWindow,
    PartitionState,
    WindowCount,
    decode_closed,
    decode_state,
    parse_key,
)


@dataclass(frozen=True, slots=True)
class MergedWindow:
    """The counts of one window over all partitions, at one vector of offsets.

    Attributes:
        window: its number.
        kind: early (some partition has not closed it), final (all have), or total (all windows up
            to it, all of them final).
        revision: per partition of the plan, group-major and partition-minor, the input offset below
            which its reports are counted: closed_at where the closed record was used, else
            next_offset, else 0.
        counts: one per group, in group order.
    """

    window: int
    kind: Kind
    revision: Revision
    counts: tuple[WindowCount, ...]

    @property
    def tallies(self) -> tuple[Tally, ...]:
        """The tallies, one per group, as a method's ``fit`` takes them."""
        return tuple(count.tally for count in self.counts)

    @property
    def reports(self) -> int:
        """Number of reports over all groups."""
        return sum(tally.reports for tally in self.tallies)


class StateMerger:
    """Merges the records of a state topic. Not safe for use from several threads.

    Holds one partition record per input partition and the closed records of the windows that are
    not settled; of settled ones only where they were closed.

    Args:
        plan: whose state it is.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._slots = len(plan.groups) * plan.partitions
        self._states: dict[int, PartitionState] = {}
        self._closed: dict[int, dict[int, ClosedWindow]] = {}
        self._closed_at: dict[int, dict[int, int]] = {}
        self._settled: set[int] = set()

    def read(self, key: bytes, value: bytes | None) -> None:
        """Read one record, or the tombstone of a closed record.

        Raises:
            ForeignRecord: not a record of this plan.
            FatalError: of a newer version, or in contradiction with one read before.
        """
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
            known = self._states.get(slot)
            # The largest next_offset, not the last record: a former owner's late write is stale.
            if known is None or state.next_offset > known.next_offset:
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
        self.add_closed(group, slot % self._plan.partitions, closed)

    def add_closed(self, group: int, partition: int, closed: ClosedWindow) -> None:
        """Take the closed record of one input partition, already decoded.

        Raises:
            FatalError: in contradiction with one read before.
        """
        slot, window = group * self._plan.partitions + partition, closed.window
        places = self._closed_at.setdefault(window, {})
        if places.setdefault(slot, closed.closed_at) != closed.closed_at:
            raise FatalError(
                f"group {group}, window {window}: closed at input offset {places[slot]} and "
                f"at {closed.closed_at}; one log can close a window only once: was an input "
                "topic replaced? Count into a new namespace"
            )
        if window not in self._settled:
            self._closed.setdefault(window, {})[slot] = closed

    def settle(self, window: int) -> None:
        """Forget the counts of a window whose final and total need not be merged again."""
        self._settled.add(window)
        self._closed.pop(window, None)

    def settled(self, window: int) -> bool:
        """Return whether :meth:`settle` was called."""
        return window in self._settled

    def open_windows(self) -> list[int]:
        """Return windows with counts that not all partitions have closed, ascending."""
        held = {w for state in self._states.values() for w in state.open}
        held.update(w for w, closed in self._closed.items() if len(closed) < self._slots)
        return sorted(w for w in held - self._settled if len(self._closed.get(w, ())) < self._slots)

    def closed_windows(self) -> list[int]:
        """Return windows that every partition has closed and that are not settled, ascending."""
        return sorted(w for w, closed in self._closed.items() if len(closed) == self._slots)

    def early(self, window: int) -> MergedWindow | None:
        """Return the window as counted so far: closed records if there are any, else open counts.

        Cost: O(partitions · counters), as for the two methods below.

        Returns:
            None if there is no early revision: the window is settled, or every partition has closed
            it (then it is final), or a partition has closed it and its closed record is not read
            yet.
        """
        closed = self._closed.get(window, {})
        if window in self._settled or len(closed) == self._slots or self._lacks(window):
            return None
        counts: list[WindowCount | None] = []
        revision = []
        for slot in range(self._slots):
            state = self._states.get(slot)
            if slot in closed:
                counts.append(closed[slot].count)
                revision.append(closed[slot].closed_at)
            elif state is None:
                counts.append(None)
                revision.append(0)
            else:
                counts.append(state.open.get(window))
                revision.append(state.next_offset)
        return MergedWindow(window, Kind.EARLY, tuple(revision), self._by_group(counts))

    def final(self, window: int) -> MergedWindow | None:
        """Return the final counts; None until every partition's closed record is read."""
        return self._merged(window, Kind.FINAL)

    def total(self, window: int) -> MergedWindow | None:
        """Return the counts of all windows through this one, from its closed records' totals."""
        return self._merged(window, Kind.TOTAL)

    def _merged(self, window: int, kind: Kind) -> MergedWindow | None:
        closed = self._closed.get(window, {})
        if len(closed) < self._slots:
            return None
        records = [closed[slot] for slot in range(self._slots)]
        counts = [r.total if kind is Kind.TOTAL else r.count for r in records]
        revision = tuple(r.closed_at for r in records)
        return MergedWindow(window, kind, revision, self._by_group(counts))

    def _by_group(
        self, counts: list[WindowCount] | list[WindowCount | None]
    ) -> tuple[WindowCount, ...]:
        width = self._plan.partitions
        merged = []
        for g, (group, mechanism) in enumerate(
            zip(self._plan.groups, self._plan.mechanisms, strict=True)
        ):
            zero = WindowCount(Tally.zero(len(group.views), mechanism.width))
            present = (c for c in counts[g * width : (g + 1) * width] if c is not None)
            merged.append(reduce(add, present, zero))
        return tuple(merged)

    def closed_records(self) -> Iterator[tuple[int, int, int, int]]:
        """Yield (group, partition, window, closed_at) of the closed records of settled windows."""
        for window in sorted(self._settled & self._closed_at.keys()):
            for slot, closed_at in sorted(self._closed_at[window].items()):
                group, partition = divmod(slot, self._plan.partitions)
                yield group, partition, window, closed_at

    def waiting(self) -> list[int]:
        """Return windows that a partition has closed while its closed record is not read.

        For a moment that is a lag between records; for longer, closed records are missing.
        """
        return [window for window in self.open_windows() if self._lacks(window)]

    def _lacks(self, window: int) -> bool:
        closed = self._closed.get(window, {})
        return any(
            state.closed_through >= window and slot not in closed
            for slot, state in self._states.items()
        )
