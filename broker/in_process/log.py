"""The log of one partition: append, read, compact, trim; without a lock or a clock."""

from __future__ import annotations

import math
from bisect import bisect_left

from calmstream.broker.in_process.settings import LogRules
from calmstream.broker.transport import Headers, Partition, Record
from calmstream.common.errors import FatalError, concerning

# The header of a batch; and the attributes and the two zero differences of a record that is alone
# in its batch.
_BATCH_OVERHEAD = 61
_RECORD_OVERHEAD = 3

# A compacted log is cleaned when it is larger than this and has doubled since the last cleaning.
_CLEAN_BYTES = 4 << 20
# A cleaning on its own keeps so many of the newest records, as Kafka keeps the active segment.
_ACTIVE_RECORDS = 8
# Number of appends between two searches for records older than ``retention.ms``.
_RETENTION_EVERY = 1000


def stored_bytes(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """Return the size that Kafka compares with ``max.message.bytes``: of a batch of this record."""
    fields = [key, value]
    for name, content in headers:
        fields += [name.encode(), content]
    size = _RECORD_OVERHEAD + _length_bytes(len(headers))
    for field in fields:
        size += _length_bytes(len(field or b"")) + len(field or b"")
    return _BATCH_OVERHEAD + _length_bytes(size) + size


def _length_bytes(length: int) -> int:
    """Return the number of bytes of a length as a zigzag varint, with 7 bits a byte."""
    return max(1, -(-(2 * length).bit_length() // 7))


class PartitionLog:
    """The records of one partition in the order of offsets, with gaps left by compaction.

    Attributes:
        start: the lowest offset that may be read.
        end: the offset that the next appended record gets.
        records: what it holds; callers only read it.
    """

    def __init__(self, partition: Partition, rules: LogRules) -> None:
        self.partition = partition
        self.rules = rules
        self.start = self.end = 0
        self.records: list[Record] = []
        self._offsets: list[int] = []
        self._bytes = 0
        self._clean_above = _CLEAN_BYTES

    def check(self, key: bytes | None, value: bytes | None, headers: Headers) -> None:
        """Check that the broker accepts a record."""
        size, topic = stored_bytes(key, value, headers), self.partition.topic
        if size > self.rules.max_message_bytes:
            raise FatalError(
                f"{topic}: a record of {size} bytes is too large, the topic's max.message.bytes is "
                f"{self.rules.max_message_bytes}"
            )
        if key is None and self.rules.compacted:
            raise FatalError(f"{topic}: a compacted topic takes no record without key")

    def append(self, key: bytes | None, value: bytes | None, headers: Headers, now: int) -> int:
        """Append a record that :meth:`check` accepted; return its offset. Amortised O(1)."""
        offset, stamped = self.end, self.rules.append_time
        self.add(Record(self.partition, offset, now, stamped, key, value, headers), now)
        return offset

    def read(self, position: int, limit: int) -> list[Record]:
        """Return at most ``limit`` records from ``position`` on; none at the end."""
        if not self.start <= position <= self.end:
            error = FatalError(
                f"{self.partition}: position {position} lies outside the log, which holds "
                f"{self.start} to {self.end}"
            )
            raise concerning(error, [self.partition.topic])
        first = bisect_left(self._offsets, position)
        return self.records[first : first + limit]

    def trim(self, offset: int) -> None:
        """Drop every record below ``offset``; an offset below the start changes nothing."""
        if not self.rules.deletes_old_records:
            raise FatalError(f"{self.partition}: a topic that is only compacted cannot be trimmed")
        if offset > self.end:
            raise FatalError(f"{self.partition}: cannot trim to {offset} above the end {self.end}")
        if offset > self.start:
            self.start = offset
            self._keep(self.records[bisect_left(self._offsets, offset) :])

    def compact(self, now: int, *, active: int, tombstones: bool) -> None:
        """Remove records whose key has a newer one, except the newest ``active`` records.

        Tombstones go when they are older than their retention, or all at once. O(records).
        """
        if not self.rules.compacted:
            return
        cut = max(len(self.records) - active, 0)
        last = {record.key: record.offset for record in self.records[:cut]}
        limit = math.inf if tombstones else now - self.rules.delete_retention_ms
        kept = [
            r
            for r in self.records[:cut]
            if (r.damage or last[r.key] == r.offset)
            and (r.value is not None or r.timestamp > limit)
        ]
        self._keep(kept + self.records[cut:])

    def add(self, record: Record, now: int) -> None:
        self._offsets.append(record.offset)
        self.records.append(record)
        self._bytes += stored_bytes(record.key, record.value, record.headers)
        self.end = record.offset + 1
        if self.rules.compacted and self._bytes > self._clean_above:
            self.compact(now, active=_ACTIVE_RECORDS, tombstones=False)
            self._clean_above = max(_CLEAN_BYTES, 2 * self._bytes)
        if self.end % _RETENTION_EVERY == 0:
            self._expire(now)

    def _expire(self, now: int) -> None:
        """Drop the oldest records while they are older than ``retention.ms``."""
        if self.rules.deletes_old_records and self.rules.retention_ms >= 0:
            oldest = now - self.rules.retention_ms
            self.trim(next((r.offset for r in self.records if r.timestamp >= oldest), self.end))

    def _keep(self, records: list[Record]) -> None:
        self.records = records
        self._offsets = [record.offset for record in records]
        self._bytes = sum(stored_bytes(r.key, r.value, r.headers) for r in records)
