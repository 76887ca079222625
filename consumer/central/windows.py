"""Raw records sorted into windows by the log's time, one per user: a pure fold over records."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import TYPE_CHECKING

from estimators.central.coding import ROW_BYTES, pack
from estimators.central.wire import TICK, RawBatch, decode_raw
from estimators.errors import FatalError, Rejection

if TYPE_CHECKING:
    from broker.transport import Record
    from estimators.central.plan import CentralPlan

KEY_BYTES = 16
_DIGEST_BYTES = 16


class RawWindows:
    """The record of every user in every window that is not released yet.

    A batch belongs to the window of its partition's clock, the running maximum of append times, so
    nothing is ever late: a window is closed once every partition's clock has reached its end.

    Which record of a user counts, and whether the user is in the sample, depends on that user's own
    records alone: the first by (append time, partition, offset, place in the batch), whatever the
    order of reading, and a keyed hash of the id. Nothing is ever dropped by count, by memory or by
    arrival. What is refused is forgotten: a refused raw record is raw all the same, and how many
    there were is private.
    """

    def __init__(self, plan: CentralPlan, wanted: Callable[[int], bool], key: bytes) -> None:
        """Collect for a plan.

        Args:
            plan: of the records.
            wanted: which windows may still be released.
            key: of the hash of user ids, secret and random, 16 bytes.
        """
        self._plan = plan
        self._wanted = wanted
        self._key = key
        self._sampled_below = int(plan.sampled * (1 << 64))
        self._clocks = dict.fromkeys(range(plan.partitions), 0)
        self._rows: dict[int, dict[bytes, bytes]] = {}

    @property
    def held_bytes(self) -> int:
        """Memory of the records kept, about. O(users); for tests and never exported."""
        kept = (row for rows in self._rows.values() for row in rows.values())
        return sum(len(row) + ROW_BYTES for row in kept)

    def read(self, record: Record) -> None:
        """Take one record of the raw topic.

        Raises:
            FatalError: the topic does not stamp append times.
        """
        if not record.append_time:
            raise FatalError(f"topic {record.partition.topic} must use LogAppendTime")
        number = record.partition.number
        clock = max(self._clocks[number], record.timestamp)
        self._clocks[number] = clock
        if record.value == TICK and record.key is None:
            return
        window = self._plan.window_at(clock)
        if not 0 <= window < self._plan.releases or not self._wanted(window):
            return
        try:
            batch = decode_raw(self._plan, record.key, record.value)
        except Rejection:
            return
        self._keep(self._rows.setdefault(window, {}), record, batch)

    def _keep(self, rows: dict[bytes, bytes], record: Record, batch: RawBatch) -> None:
        """Note each user's record, unless an earlier one of the same user is there."""
        place = (record.timestamp, record.partition.number, record.offset)
        for i, (user, values) in enumerate(
            zip(batch.users, zip(*batch.columns, strict=True), strict=True)
        ):
            if not user:
                continue
            digest = blake2b(user.encode(), digest_size=_DIGEST_BYTES, key=self._key).digest()
            if int.from_bytes(digest[:8], "big") >= self._sampled_below:
                continue
            row = pack(*place, i, values)
            before = rows.get(digest)
            if before is None or row < before:
                rows[digest] = row

    def closed_through(self) -> int:
        """The last window that every partition's clock has passed; -1 before the first."""
        return self._plan.window_at(min(self._clocks.values())) - 1

    def behind(self, milliseconds: int) -> list[int]:
        """Partitions whose clock has not reached a time."""
        return [number for number, clock in self._clocks.items() if clock < milliseconds]

    def take(self, window: int) -> list[bytes]:
        """The packed records of a closed window; they are forgotten here."""
        return list(self._rows.pop(window, {}).values())
