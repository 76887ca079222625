"""Reads partitions to their ends, or between two offsets, with a limit on time without progress."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

from broker.clock import Clock
from broker.transport import Partition, Reader, Record, Topics
from consumer.runtime.retry import RetryBudget
from estimators.errors import RecoverableError

# Maximum wait and number of records of one poll.
_POLL_SECONDS = 0.2
_POLL_RECORDS = 500
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

    Args:
        reader: a reader that is assigned to the partitions and has their positions.
        topics: the administrator, which fetches log ends.
        partitions: the partitions to check.
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
        """Compare positions with log ends; return whether all partitions were read.

        Raises:
            RecoverableError: the broker does not answer.
        """
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
    """Yield every record of these partitions, from their log starts to their ends.

    Args:
        reader: a reader that only this function uses meanwhile; it is assigned anew.
        topics: the administrator, which fetches log starts and ends.
        partitions: the partitions to read.
        clock: measures the time without progress.
        patience_seconds: maximum time without progress.
        keep_alive: called before every poll; it may raise an error to end the reading.

    Raises:
        RecoverableError: the broker does not answer, or the reading makes no progress for
            ``patience_seconds``.
        FatalError: a partition does not exist.
    """
    starts = topics.log_starts(partitions)
    reader.assign(partitions)
    for partition in partitions:
        reader.seek(partition, starts[partition])
    check = EndCheck(reader, topics, partitions)
    polls = _Polls(reader, RetryBudget(clock, patience_seconds), patience_seconds, keep_alive)
    while not check.update():
        yield from polls.next(check.unread)


def read_spans(
    reader: Reader,
    spans: Mapping[Partition, tuple[int, int]],
    clock: Clock,
    *,
    patience_seconds: float = PATIENCE_SECONDS,
    keep_alive: Callable[[], None] = _nothing,
) -> Iterator[Record]:
    """Yield every record that begins in the span of its partition.

    A span is a range of offsets: the first offset and the end, which is not part of it. A batch of
    records that cannot be decoded is one record, whose offset is that of its last record; it begins
    at the offset of its first record.

    Args:
        reader: a reader that only this function uses meanwhile; it is assigned anew.
        spans: the span of each partition; empty spans are skipped.
        clock: measures the time without progress.
        patience_seconds: maximum time without progress.
        keep_alive: called before every poll; it may raise an error to end the reading.

    Raises:
        FatalError: a span begins outside the log.
        RecoverableError: the broker does not answer, or the reading makes no progress for
            ``patience_seconds``.
    """
    unread = {p for p, (first, end) in spans.items() if first < end}
    if unread:
        reader.assign(unread)
    for partition in unread:
        reader.seek(partition, spans[partition][0])
    polls = _Polls(reader, RetryBudget(clock, patience_seconds), patience_seconds, keep_alive)
    while unread:
        yield from (r for r in polls.next(unread) if _begins(r) < spans[r.partition][1])
        done = {p for p in unread if reader.position(p) >= spans[p][1]}
        unread -= done
        if done and unread:
            reader.assign(unread)


def _begins(record: Record) -> int:
    """Return the offset at which a record, or a batch that cannot be decoded, begins."""
    return record.offset if record.damage is None else record.damage.first_offset


class _Polls:
    """Polls a reader, and raises an error if its positions do not advance for too long.

    Args:
        reader: the reader, assigned and with positions.
        budget: maximum time without progress.
        seconds: the same time, for the error message.
        keep_alive: called before every poll.
    """

    def __init__(
        self, reader: Reader, budget: RetryBudget, seconds: float, keep_alive: Callable[[], None]
    ) -> None:
        self._reader = reader
        self._budget = budget
        self._seconds = seconds
        self._keep_alive = keep_alive

    def next(self, partitions: Collection[Partition]) -> list[Record]:
        """Poll once.

        Raises:
            RecoverableError: no position of these partitions has advanced for too long.
        """
        before = {p: self._reader.position(p) for p in partitions}
        self._keep_alive()
        records = self._reader.poll(_POLL_SECONDS, _POLL_RECORDS)
        if records or any(self._reader.position(p) != at for p, at in before.items()):
            self._budget.succeeded()
        elif self._budget.failed():
            raise RecoverableError(
                f"reading {min(partitions)} makes no progress for {self._seconds:g} s; "
                "are its brokers up?"
            )
        return list(records)
