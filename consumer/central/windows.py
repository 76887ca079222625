"""Raw records sorted into windows by the log's time: a pure fold over records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from estimators.central.wire import TICK, RawBatch, decode_raw
from estimators.errors import FatalError, Reason, Rejection

if TYPE_CHECKING:
    from broker.transport import Record
    from estimators.central.plan import CentralPlan


class RawWindows:
    """Batches of every window that is not released yet.

    A batch belongs to the window of its partition's clock, the running maximum of append times, so
    nothing is ever late: a window is closed once every partition's clock has reached its end.

    Attributes:
        rejected: records refused, by reason. They are counted and dropped, never kept: a refused
            raw record is raw all the same.
        held_bytes: memory of the batches kept.
    """

    def __init__(self, plan: CentralPlan, wanted: Callable[[int], bool], limit: int) -> None:
        """Collect for a plan.

        Args:
            plan: of the records.
            wanted: which windows may still be released.
            limit: most bytes of memory for batches.
        """
        self._plan = plan
        self._wanted = wanted
        self._limit = limit
        self.held_bytes = 0
        self._clocks = dict.fromkeys(range(plan.partitions), 0)
        self._batches: dict[int, list[RawBatch]] = {}
        self._ids: dict[int, set[bytes]] = {}
        self.rejected: Counter[Reason] = Counter()

    def read(self, record: Record) -> None:
        """Take one record of the raw topic.

        Raises:
            FatalError: the topic does not stamp append times, or memory is at its limit.
        """
        if not record.append_time:
            raise FatalError(f"topic {record.partition.topic} must use LogAppendTime")
        number = record.partition.number
        clock = max(self._clocks[number], record.timestamp)
        self._clocks[number] = clock
        if record.value == TICK and record.key is None:
            return
        window = self._plan.window_at(clock)
        try:
            batch = self._admit(record, window)
        except Rejection as refused:
            self.rejected[refused.reason] += 1
            return
        if self._wanted(window):
            self._keep(window, bytes(record.key or b""), batch)

    def _keep(self, window: int, batch_id: bytes, batch: RawBatch) -> None:
        self.held_bytes += batch.memory
        if self.held_bytes > self._limit:
            raise FatalError(
                f"the raw records of windows that are not released yet need more than "
                f"{self._limit:,} bytes of memory: raise CALMSTREAM_RAW_MEMORY_BYTES (about twice "
                "as much must be free), or plan shorter windows; the log keeps the records, and "
                "nothing was paid for them"
            )
        self._ids.setdefault(window, set()).add(batch_id)
        self._batches.setdefault(window, []).append(batch)

    def _admit(self, record: Record, window: int) -> RawBatch:
        """The batch of a record that counts in ``window``.

        Raises:
            Rejection: it counts nowhere.
        """
        batch = decode_raw(self._plan, record.key, record.value)
        if window < 0:
            raise Rejection(Reason.EARLY, "before the plan's start")
        if window >= self._plan.releases:
            raise Rejection(Reason.AFTER_END, "after the plan's last window")
        if record.key in self._ids.get(window, ()):
            raise Rejection(Reason.DUPLICATE, "a batch of this id was read")
        return batch

    def closed_through(self) -> int:
        """The last window that every partition's clock has passed; -1 before the first."""
        return self._plan.window_at(min(self._clocks.values())) - 1

    def behind(self, milliseconds: int) -> list[int]:
        """Partitions whose clock has not reached a time."""
        return [number for number, clock in self._clocks.items() if clock < milliseconds]

    def take(self, window: int) -> list[RawBatch]:
        """The batches of a closed window; they are forgotten here."""
        self._ids.pop(window, None)
        batches = self._batches.pop(window, [])
        self.held_bytes -= sum(batch.memory for batch in batches)
        return batches
