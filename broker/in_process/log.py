"""The log of one partition: append, read, compact, trim.

This module has no lock and no clock; the cluster has both.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace

from calmstream.broker.in_process.settings import LogRules
from calmstream.broker.record_batches import as_chunk, decode_batches
from calmstream.broker.transport import Headers, Partition, Record
from calmstream.common.errors import FatalError, concerning

# The header of a batch; and the attributes and the two zero differences of a record that is alone
# in its batch.
_BATCH_OVERHEAD = 61
_RECORD_OVERHEAD = 3

# A compacted log is cleaned automatically when it has doubled since the last cleaning and holds
# more than this. The sizes bound the memory of a long run and keep cleanings rare.
_AUTO_RECORDS = 1000
_AUTO_BYTES = 64 << 20
# An automatic cleaning keeps the newest records up to these amounts, as Kafka keeps the active
# segment.
_ACTIVE_RECORDS = 64
_ACTIVE_BYTES = 8 << 20
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
        partition: the partition.
        start: the lowest offset that may be read.
        end: the offset that the next appended record gets.
    """

    def __init__(self, partition: Partition, rules: LogRules) -> None:
        self.partition = partition
        self.start = 0
        self.end = 0
        self._rules = rules
        self._offsets: list[int] = []
        self._records: list[Record] = []
        self._bytes = 0
        self._clean_above = (_AUTO_RECORDS, _AUTO_BYTES)
        # The time of the first cleaning of each tombstone, by the tombstone's offset.
        self._cleaned_at: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._records)

    def set_rules(self, rules: LogRules) -> None:
        """Follow other rules from now on; existing records stay."""
        self._rules = rules

    def check(self, key: bytes | None, value: bytes | None, headers: Headers) -> None:
        """Check that the broker accepts a record."""
        size = stored_bytes(key, value, headers)
        if size > self._rules.max_message_bytes:
            raise FatalError(
                f"{self.partition.topic}: a record of {size} bytes is too large, the topic's "
                f"max.message.bytes is {self._rules.max_message_bytes}"
            )
        if key is None and self._rules.compacted:
            raise FatalError(
                f"{self.partition.topic}: a compacted topic takes no record without key"
            )

    def append(self, key: bytes | None, value: bytes | None, headers: Headers, now: int) -> int:
        """Append a record that :meth:`check` accepted; return its offset. Amortised O(1)."""
        offset = self.end
        append_time = self._rules.append_time
        self._add(Record(self.partition, offset, now, append_time, key, value, headers), now)
        return offset

    def append_batch(self, raw: bytes, now: int) -> int:
        """Append a record batch in Kafka's own encoding; return its first offset.

        With Kafka, the reader decodes a batch. Here it is decoded when it is appended, with the
        same result.
        """
        first = self.end
        (piece,) = decode_batches(raw)
        chunk = as_chunk(self.partition, piece)
        for record in () if chunk is None else chunk.records():
            damage = record.damage and replace(
                record.damage, first_offset=first + record.damage.first_offset
            )
            stamped = self._rules.append_time
            self._add(
                replace(
                    record,
                    offset=first + record.offset,
                    timestamp=now if stamped else record.timestamp,
                    append_time=stamped,
                    damage=damage,
                ),
                now,
            )
        self.end = first + piece.next_offset
        return first

    def _add(self, record: Record, now: int) -> None:
        self._offsets.append(record.offset)
        self._records.append(record)
        self._bytes += stored_bytes(record.key, record.value, record.headers)
        self.end = record.offset + 1
        self._keep_bounded(now)

    def read(self, position: int, limit: int) -> list[Record]:
        """Return at most ``limit`` records from ``position`` on; none at the end."""
        if not self.start <= position <= self.end:
            error = FatalError(
                f"{self.partition}: position {position} lies outside the log, which holds "
                f"{self.start} to {self.end}"
            )
            raise concerning(error, [self.partition.topic])
        first = bisect_left(self._offsets, position)
        return self._records[first : first + limit]

    def trim(self, offset: int) -> None:
        """Drop every record below ``offset``; an offset below the start changes nothing."""
        if not self._rules.deletes_old_records:
            raise FatalError(f"{self.partition}: a topic that is only compacted cannot be trimmed")
        if offset > self.end:
            raise FatalError(
                f"{self.partition}: cannot trim to {offset}, the log ends at {self.end}"
            )
        if offset > self.start:
            self.start = offset
            self._keep(self._records[bisect_left(self._offsets, offset) :])

    def expire(self, now: int) -> None:
        """Drop the oldest records while they are older than ``retention.ms``."""
        if self._rules.deletes_old_records and self._rules.retention_ms >= 0:
            oldest = now - self._rules.retention_ms
            first_kept = next((r.offset for r in self._records if r.timestamp >= oldest), self.end)
            self.trim(first_kept)

    def compact(self, now: int, *, active: int, tombstones: bool) -> None:
        """Remove records whose key has a newer record.

        Offsets never change. Cost: O(records).
        """
        if not self._rules.compacted:
            return
        cut = max(len(self._records) - active, 0)
        last = {record.key: record.offset for record in self._records[:cut]}
        kept = [r for r in self._records[:cut] if r.damage or last[r.key] == r.offset]
        if not tombstones:
            for record in kept:
                if record.value is None:
                    self._cleaned_at.setdefault(record.offset, now)
        limit = now - self._rules.delete_retention_ms
        kept = [
            r
            for r in kept
            if r.value is not None or (not tombstones and self._cleaned_at[r.offset] > limit)
        ]
        self._keep(kept + self._records[cut:])

    def _keep(self, records: list[Record]) -> None:
        self._records = records
        self._offsets = [record.offset for record in records]
        self._bytes = sum(stored_bytes(r.key, r.value, r.headers) for r in records)
        live = set(self._offsets)
        self._cleaned_at = {o: t for o, t in self._cleaned_at.items() if o in live}

    def _keep_bounded(self, now: int) -> None:
        """Compact a log that has doubled, and drop expired records from time to time."""
        records, size = self._clean_above
        if self._rules.compacted and (len(self._records) > records or self._bytes > size):
            self.compact(now, active=self._active(), tombstones=False)
            self._clean_above = (
                max(_AUTO_RECORDS, 2 * len(self._records)),
                max(_AUTO_BYTES, 2 * self._bytes),
            )
        if self.end % _RETENTION_EVERY == 0:
            self.expire(now)

    def _active(self) -> int:
        """Return how many of the newest records an automatic cleaning keeps, at least one."""
        size = 0
        for count, record in enumerate(reversed(self._records)):
            size += stored_bytes(record.key, record.value, record.headers)
            if count == _ACTIVE_RECORDS or size > _ACTIVE_BYTES:
                return max(count, 1)
        return len(self._records)
