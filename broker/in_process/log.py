"""The log of one partition: append and read, without a lock or a clock."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from operator import attrgetter

from calmstream.broker.records import varint, write_headers
from calmstream.broker.transport import Headers, Partition, Record
from calmstream.common.errors import FatalError

# The header of a batch; and the attributes and the two zero differences of a record that is alone
# in its batch.
_BATCH_OVERHEAD = 61
_RECORD_OVERHEAD = 3


def stored_bytes(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """Return the size that Kafka compares with ``max.message.bytes``: of a batch of this record."""
    size = _RECORD_OVERHEAD + len(write_headers(headers))
    for field in (key or b"", value or b""):
        size += len(varint(len(field))) + len(field)
    return _BATCH_OVERHEAD + len(varint(size)) + size


class PartitionLog:
    """The records of one partition in the order of offsets.

    Trims move the start, and compaction leaves gaps. The cluster calls `check` before `append`.
    """

    def __init__(self, partition: Partition, settings: Mapping[str, str]) -> None:
        self.partition = partition
        self.settings = settings
        self.start = self.end = 0
        self.records: list[Record] = []

    @property
    def append_time(self) -> bool:
        return self.settings["message.timestamp.type"] == "LogAppendTime"

    def check(self, key: bytes | None, value: bytes | None, headers: Headers) -> None:
        size, topic = stored_bytes(key, value, headers), self.partition.topic
        most = int(self.settings["max.message.bytes"])
        if size > most:
            raise FatalError(
                f"{topic}: a record of {size} bytes is too large, the topic's max.message.bytes is "
                f"{most}"
            )
        if key is None and "compact" in self.settings["cleanup.policy"]:
            raise FatalError(f"{topic}: a compacted topic takes no record without key")

    def append(self, key: bytes | None, value: bytes | None, headers: Headers, now: int) -> int:
        offset = self.end
        self.add(Record(self.partition, offset, now, self.append_time, key, value, headers))
        return offset

    def read(self, position: int, limit: int) -> list[Record]:
        if not self.start <= position <= self.end:
            raise FatalError(
                f"{self.partition}: position {position} lies outside the log, which holds "
                f"{self.start} to {self.end}",
                [self.partition.topic],
            )
        first = bisect_left(self.records, position, key=attrgetter("offset"))
        return self.records[first : first + limit]

    def add(self, record: Record) -> None:
        self.records.append(record)
        self.end = record.offset + 1
