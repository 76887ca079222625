"""Reading partitions to their ends: one rule and one loop for every part of the service."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

from broker.clock import Clock
from broker.transport import Partition, Reader, Record, Topics
from consumer.runtime.retry import RetryBudget
from estimators.errors import RecoverableError

_POLL_SECONDS = 0.2
_POLL_RECORDS = 500
PATIENCE_SECONDS = 60.0


def _nothing() -> None:
    pass


class EndCheck:
    """Whether some partitions were read to their ends.

    A partition was read to its end when the reader's position equals an end that was fetched after
    the position was reached. An end fetched earlier proves nothing: compaction can delete a key's
    old record before it is read, while its new record lies beyond that end.

    Args:
        reader: assigned to the partitions, with their positions set.
        topics: for log ends.
        partitions: the partitions to check.
    """

    def __init__(self, reader: Reader, topics: Topics, partitions: Collection[Partition]) -> None:
        self._reader = reader
        self._topics = topics
        self._left = set(partitions)
        self._ends: dict[Partition, int] = {}

    @property
    def unread(self) -> frozenset[Partition]:
        """The partitions that were not read to their ends when :meth:`update` last looked."""
        return frozenset(self._left)

    def update(self) -> bool:
        """Look at the positions, fetch ends where needed, and return whether all were read.

        Raises:
            RecoverableError: the broker does not answer.
        """
        positions = {p: self._reader.position(p) for p in self._left}
        reached = [p for p in self._left if positions[p] >= self._ends.get(p, 0)]
        if reached:
            self._ends |= self._topics.log_ends(reached)
            self._left -= {p for p in reached if positions[p] >= self._ends[p]}
        return not self._left


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
        reader: assigned here; used by nobody else meanwhile.
        topics: for log starts and log ends.
        partitions: what is read.
        clock: for the patience.
        patience_seconds: longest time without progress.
        keep_alive: called before every poll; may raise to end the reading.

    Raises:
        RecoverableError: the broker does not answer, or the reading makes no progress for
            ``patience_seconds``.
        FatalError: no such partition.
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
    """Yield every record that begins in its partition's span.

    A span is a first offset and an end, which is not part of it. A batch of records that cannot be
    decoded counts as one record; it begins at its first offset, which may lie below the offset that
    the record shows.

    Args:
        reader: assigned here; used by nobody else meanwhile.
        spans: by partition; empty ones are skipped.
        clock: for the patience.
        patience_seconds: longest time without progress.
        keep_alive: called before every poll; may raise to end the reading.

    Raises:
        FatalError: the log does not hold a span's first offset.
        RecoverableError: the broker does not answer, or the reading makes no progress for
            ``patience_seconds``.
    """
    left = {p for p, (first, end) in spans.items() if first < end}
    if left:
        reader.assign(left)
    for partition in left:
        reader.seek(partition, spans[partition][0])
    polls = _Polls(reader, RetryBudget(clock, patience_seconds), patience_seconds, keep_alive)
    while left:
        yield from (r for r in polls.next(left) if _begins(r) < spans[r.partition][1])
        done = {p for p in left if reader.position(p) >= spans[p][1]}
        left -= done
        if done and left:
            reader.assign(left)


def _begins(record: Record) -> int:
    return record.offset if record.damage is None else record.damage.first_offset


class _Polls:
    """Polls of one reading, which fail when the positions stop advancing."""

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
            RecoverableError: no position of these partitions has advanced for the whole budget.
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
