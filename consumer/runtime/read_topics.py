"""Reads partitions to their ends, or between two offsets, with a limit on time without progress."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

import numpy as np

from calmstream.broker.transport import Chunk, Partition, Reader, Record, Topics
from calmstream.common.clock import Clock
from calmstream.common.errors import RecoverableError
from calmstream.consumer.runtime.retry import RetryBudget

# Maximum wait and number of records of one poll.
_POLL_SECONDS = 0.2
_POLL_RECORDS = 2000
PATIENCE_SECONDS = 60.0
"""Maximum time without progress before the reading fails; brokers restart in less."""


def _nothing() -> None:
    pass


class EndCheck:
    """Finds out whether partitions were read to their ends.

    A partition counts as read when the reader's position equals an end that was requested after the
    position was reached. An end that was requested earlier is not enough, because of compaction.
    Suppose that a key's record is written again after the request: the new record lies above the
    end, and compaction can delete the old one before it is read. Then the key would be missed.
    """

    def __init__(self, reader: Reader, topics: Topics, partitions: Collection[Partition]) -> None:
        self._reader = reader
        self._topics = topics
        self._unread = set(partitions)
        self._ends: dict[Partition, int] = {}

    @property
    def unread(self) -> frozenset[Partition]:
        """The partitions that were not read to their ends at the last call of :meth:`update`."""
        return frozenset(self._unread)

    def update(self) -> bool:
        """Compare positions with log ends; return whether all partitions were read."""
        positions = {p: self._reader.position(p) for p in self._unread}
        reached = [p for p in self._unread if positions[p] >= self._ends.get(p, 0)]
        if reached:
            self._ends |= self._topics.log_ends(reached)
            self._unread -= {p for p in reached if positions[p] >= self._ends[p]}
        return not self._unread


def read_whole(
    reader: Reader,
    topics: Topics,
    partitions: Collection[Partition],
    clock: Clock,
    *,
    patience_seconds: float = PATIENCE_SECONDS,
    keep_alive: Callable[[], None] = _nothing,
) -> Iterator[Record]:
    """Yield every record of these partitions, from their log starts to their ends."""
    starts = topics.log_starts(partitions)
    reader.assign(partitions)
    for partition in partitions:
        reader.seek(partition, starts[partition])
    check = EndCheck(reader, topics, partitions)
    polls = _Polls(reader, clock, patience_seconds, keep_alive)
    while not check.update():
        for chunk in polls.next(check.unread):
            yield from chunk.records()


class Continuation:
    """Reads one partition to its end, and later on from there. Not safe for several threads.

    Attributes:
        position: the next offset to read; set it before the first reading.
    """

    def __init__(
        self,
        reader: Reader,
        topics: Topics,
        partition: Partition,
        clock: Clock,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        self.position: int | None = None
        self._reader = reader
        self._topics = topics
        self._partition = partition
        self._clock = clock
        self._patience = patience_seconds

    def records(self) -> Iterator[Record]:
        """Yield the records up to the end; after an error, a poll's records come again."""
        assert self.position is not None
        self._reader.assign([self._partition])
        self._reader.seek(self._partition, self.position)
        check = EndCheck(self._reader, self._topics, [self._partition])
        polls = _Polls(self._reader, self._clock, self._patience, _nothing)
        while not check.update():
            for chunk in polls.next(check.unread):
                yield from chunk.records()
            self.position = self._reader.position(self._partition)


def read_span_chunks(
    reader: Reader,
    spans: Mapping[Partition, tuple[int, int]],
    clock: Clock,
    *,
    patience_seconds: float = PATIENCE_SECONDS,
    keep_alive: Callable[[], None] = _nothing,
) -> Iterator[Chunk]:
    """Yield every record that begins in the span of its partition, in chunks.

    A span is a range of offsets: the first offset and the end, which is not part of it. A batch of
    records that cannot be decoded is one record, whose offset is that of its last record; it begins
    at the offset of its first record.
    """
    unread = {p for p, (first, end) in spans.items() if first < end}
    if unread:
        reader.assign(unread)
    for partition in unread:
        reader.seek(partition, spans[partition][0])
    polls = _Polls(reader, clock, patience_seconds, keep_alive)
    while unread:
        for chunk in polls.next(unread):
            inside = _records_before(chunk, spans[chunk.partition][1])
            if inside:
                yield chunk.part(0, inside)
        done = {p for p in unread if reader.position(p) >= spans[p][1]}
        unread -= done
        if done and unread:
            reader.assign(unread)


def _records_before(chunk: Chunk, end: int) -> int:
    """Return how many records, or batches that cannot be decoded, begin before an offset."""
    if chunk.damage is not None:
        return int(chunk.damage.first_offset < end)
    return int(np.searchsorted(chunk.offset, end))


class _Polls:
    """Polls a reader, and raises an error if its positions do not advance for too long."""

    def __init__(
        self, reader: Reader, clock: Clock, seconds: float, keep_alive: Callable[[], None]
    ) -> None:
        self._reader = reader
        self._budget = RetryBudget(clock, seconds)
        self._seconds = seconds
        self._keep_alive = keep_alive

    def next(self, partitions: Collection[Partition]) -> list[Chunk]:
        """Poll once."""
        before = {p: self._reader.position(p) for p in partitions}
        self._keep_alive()
        chunks = self._reader.poll_chunks(_POLL_SECONDS, _POLL_RECORDS)
        if chunks or any(self._reader.position(p) != at for p, at in before.items()):
            self._budget.succeeded()
        elif self._budget.failed():
            raise RecoverableError(
                f"reading {min(partitions)} makes no progress for {self._seconds:g} s; "
                "are its brokers up?"
            )
        return list(chunks)
