"""Reads partitions to their ends, or between two offsets, with a limit on time without progress."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping

import numpy as np

from calmstream.broker.transport import Broker, Chunk, Partition, Reader, Record, Topics
from calmstream.common.clock import Clock
from calmstream.common.errors import MissingTopic, RecoverableError
from calmstream.consumer.runtime.retry import RetryBudget

# Maximum wait and number of records of one poll.
_POLL_SECONDS = 0.2
_POLL_RECORDS = 2000
_BACKOFF_SECONDS = 0.5
"""Pause after a failed call to the broker."""

PATIENCE_SECONDS = 60.0
"""Maximum time without progress before the reading fails; brokers restart in less."""


class EndCheck:
    """Finds out whether partitions were read to their ends.

    An end must be requested after its position was reached. Otherwise a key's record could be
    written again above the end, and compaction could delete the old one before it is read.
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


class PatientReader:
    """Reads to ends, or between offsets; fails if positions do not advance for too long."""

    def __init__(
        self,
        reader: Reader,
        topics: Topics,
        clock: Clock,
        *,
        patience_seconds: float = PATIENCE_SECONDS,
        keep_alive: Callable[[], None] = lambda: None,
    ) -> None:
        self._reader = reader
        self._topics = topics
        self._seconds = patience_seconds
        self._budget = RetryBudget(clock, patience_seconds)
        self._keep_alive = keep_alive

    def whole(self, partitions: Collection[Partition]) -> Iterator[Record]:
        """Yield every record of these partitions, from their log starts to their ends."""
        starts = self._topics.log_starts(partitions)
        self._reader.assign(partitions)
        for partition in partitions:
            self._reader.seek(partition, starts[partition])
        for chunks in self.to_ends(partitions):
            for chunk in chunks:
                yield from chunk.records()

    def to_ends(self, partitions: Collection[Partition]) -> Iterator[list[Chunk]]:
        """Yield what polls return until all partitions, which are assigned, were read to ends."""
        check = EndCheck(self._reader, self._topics, partitions)
        self._budget.succeeded()
        while not check.update():
            yield self._poll(check.unread)

    def spans(self, spans: Mapping[Partition, tuple[int, int]]) -> Iterator[Chunk]:
        """Yield every record that begins between two offsets of its partition, in chunks."""
        unread = {p for p, (first, end) in spans.items() if first < end}
        if unread:
            self._reader.assign(unread)
        for partition in unread:
            self._reader.seek(partition, spans[partition][0])
        self._budget.succeeded()
        while unread:
            for chunk in self._poll(unread):
                inside = _records_before(chunk, spans[chunk.partition][1])
                if inside:
                    yield chunk.part(0, inside)
            done = {p for p in unread if self._reader.position(p) >= spans[p][1]}
            unread -= done
            if done and unread:
                self._reader.assign(unread)

    def _poll(self, partitions: Collection[Partition]) -> list[Chunk]:
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


def _records_before(chunk: Chunk, end: int) -> int:
    """Return how many records begin before an offset; damaged ones stand at their last."""
    if chunk.damage is not None:
        return int(chunk.damage.first_offset < end)
    return int(np.searchsorted(chunk.offset, end))


class TopicReader:
    """Reads partitions from their oldest records on, with clients that it opens and closes.

    For one thread at a time, but ``topics``. Call :meth:`poll` or :meth:`to_end`, not both.
    """

    def __init__(
        self,
        broker: Broker,
        partitions: Collection[Partition],
        clock: Clock,
        *,
        missing: str = "create it: calmstream topics",
        keep_alive: Callable[[], None] = lambda: None,
    ) -> None:
        self._partitions = partitions
        self._missing = missing
        self._offsets: dict[Partition, int] = {}
        self._placed = False
        self.topics = broker.topics()
        self._reader = broker.reader()
        self._patient = PatientReader(self._reader, self.topics, clock, keep_alive=keep_alive)

    def start(self) -> None:
        """Begin with the oldest records; the first reading does so otherwise."""
        # Only offsets are requested, so that a reader needs no permission other than READ.
        try:
            self._offsets = self.topics.log_starts(self._partitions)
        except MissingTopic as error:
            topic = min(self._partitions).topic
            raise MissingTopic(f"topic {topic} does not exist; {self._missing}") from error
        self._place()

    def poll(self, seconds: float) -> list[Record]:
        if not self._placed:
            self.start()
        return self._reader.poll(seconds, _POLL_RECORDS)

    def at_end(self) -> bool:
        """Return whether nothing follows what was polled."""
        ends = self.topics.log_ends(self._partitions)
        return all(self._reader.position(partition) >= end for partition, end in ends.items())

    def to_end(self) -> Iterator[Record]:
        """Yield the records up to the end, later from there; after an error some come again."""
        if self._placed:
            self._place()
        else:
            self.start()
        for chunks in self._patient.to_ends(self._partitions):
            for chunk in chunks:
                yield from chunk.records()
            self._offsets = {p: self._reader.position(p) for p in self._partitions}

    def close(self) -> None:
        """Close the reader. Never raises."""
        self._reader.close()

    def _place(self) -> None:
        self._reader.assign(self._partitions)
        for partition, offset in self._offsets.items():
            self._reader.seek(partition, offset)
        self._placed = True


def followed(
    source: TopicReader,
    clock: Clock,
    stop: threading.Event,
    *,
    follow: bool,
    poll_seconds: float,
    retry_seconds: float,
    wants_end: Callable[[], bool] = lambda: False,
) -> Iterator[Record | None]:
    """Yield all records until stopped, and None each time the end was reached and is wanted."""
    retries = RetryBudget(clock, retry_seconds)
    while not stop.is_set():
        records: list[Record] = []
        ended = False
        try:
            seek_end = wants_end() or not follow
            # While the caller waits for the end, a short poll finds it sooner.
            records = source.poll(min(poll_seconds, 0.1) if seek_end else poll_seconds)
            ended = seek_end and not records and source.at_end()
            retries.succeeded()
        except RecoverableError:
            if retries.failed():
                raise
            stop.wait(_BACKOFF_SECONDS)
        yield from records
        if ended:
            yield None
            if not follow:
                return
