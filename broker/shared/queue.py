"""Records that wait to be handed out, with the position of each partition."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection

from calmstream.broker.transport import Chunk, Partition
from calmstream.common.errors import FatalError


class RecordQueue:
    """A queue of records in chunks; ``size`` is their bytes of keys and values."""

    def __init__(self) -> None:
        self.size = 0
        self._records = 0
        self._chunks: deque[Chunk] = deque()
        self._next: dict[Partition, int] = {}  # offset of the next record to hand out
        self._fetched: dict[Partition, int] = {}  # below which nothing is left to fetch

    def __len__(self) -> int:
        return self._records

    def put(self, chunk: Chunk) -> None:
        self._chunks.append(chunk)
        self._fetched[chunk.partition] = int(chunk.offset[-1]) + 1
        self._records += len(chunk)
        self.size += chunk.size

    def take(self, limit: int, paused: Collection[Partition] = ()) -> list[Chunk]:
        """Remove and return at most ``limit`` records, in order; those of paused ones stay."""
        taken: list[Chunk] = []
        kept: deque[Chunk] = deque()
        for chunk in self._chunks:
            room = 0 if chunk.partition in paused else limit
            if room > 0:
                taken.append(chunk.part(0, room) if room < len(chunk) else chunk)
                limit -= len(taken[-1])
            if room < len(chunk):
                kept.append(chunk.part(room, len(chunk)) if room > 0 else chunk)
        self._chunks = kept
        for chunk in taken:
            self._next[chunk.partition] = int(chunk.offset[-1]) + 1
            self._records -= len(chunk)
            self.size -= chunk.size
        return taken

    def position(self, partition: Partition) -> int:
        try:
            return self._next[partition]
        except KeyError:
            raise FatalError(f"{partition}: no position yet, seek first") from None

    def fetched_to(self, partition: Partition) -> int | None:
        return self._fetched.get(partition)

    def restart(self, partition: Partition, offset: int) -> None:
        """Drop the records of a partition; the next one to hand out is at this offset."""
        if offset < 0:
            raise FatalError(f"{partition}: cannot seek to {offset}")
        self.drop([partition])
        self._next[partition] = self._fetched[partition] = offset

    def reached(self, partition: Partition, position: int) -> None:
        """Note that there is no record below this position which was not put into the queue."""
        self._fetched[partition] = position
        if not any(chunk.partition == partition for chunk in self._chunks):
            self._next[partition] = position

    def drop(self, partitions: Collection[Partition]) -> None:
        gone = set(partitions)
        if gone and self._chunks:
            self._chunks = deque(c for c in self._chunks if c.partition not in gone)
            self._records = sum(map(len, self._chunks))
            self.size = sum(chunk.size for chunk in self._chunks)
        for partition in gone:
            self._next.pop(partition, None)
            self._fetched.pop(partition, None)

    def clear(self) -> None:
        self.size = self._records = 0
        self._chunks.clear()
        self._next.clear()
        self._fetched.clear()
