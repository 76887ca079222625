"""Sorts raw records into windows by the log's time, without a clock or a broker of its own."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b

from calmstream.broker.transport import Record
from calmstream.common.errors import FatalError
from calmstream.estimators.central.coding import pack
from calmstream.estimators.central.plan import CentralPlan
from calmstream.estimators.central.wire import TICK, decode_raw

KEY_BYTES = 16  # size of the secret key of the hash of user ids
_DIGEST_BYTES = 16  # of that hash: in practice no two users have the same one


class RawWindows:
    """The record of each user in each window that is not released yet.

    A batch belongs to the window of its partition's clock, the largest append time so far: none is
    late. A user's first record counts, in an order independent of reading, and a keyed hash of the
    id decides on the sample. No record is dropped because of other users': that would reveal them.
    """

    def __init__(self, plan: CentralPlan, wanted: Callable[[int], bool], key: bytes) -> None:
        self._plan = plan
        self._wanted = wanted
        self._key = key
        self._sampled_below = int(plan.sampled * (1 << 64))
        self._clocks = dict.fromkeys(range(plan.partitions), 0)
        self._rows: dict[int, dict[bytes, bytes]] = {}

    def read(self, record: Record) -> None:
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
        self._keep(self._rows.setdefault(window, {}), record)

    def _keep(self, rows: dict[bytes, bytes], record: Record) -> None:
        """Keep the record of each sampled user, unless an earlier one of the same user is kept."""
        place = (record.timestamp, record.partition.number, record.offset)
        batch = decode_raw(self._plan, record.key, record.value)
        for i, (user, values) in enumerate(batch):
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
        """Return the last window that all partitions' clocks have passed, or -1."""
        return self._plan.window_at(min(self._clocks.values())) - 1

    def behind(self, milliseconds: int) -> list[int]:
        """Return the partitions whose clock has not reached a time."""
        return [number for number, clock in self._clocks.items() if clock < milliseconds]

    def take(self, window: int) -> list[bytes]:
        """Return the packed records of a closed window, and forget them."""
        return list(self._rows.pop(window, {}).values())
