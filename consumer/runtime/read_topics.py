"""Reading partitions whole, for commands that look at topics once and end."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from broker.clock import Clock
from broker.transport import Partition, Reader, Record, Topics
from estimators.errors import FatalError

_POLL_SECONDS = 0.2
_POLL_RECORDS = 500
PATIENCE_SECONDS = 60.0


def read_whole(
    reader: Reader,
    topics: Topics,
    partitions: Collection[Partition],
    clock: Clock,
    patience_seconds: float = PATIENCE_SECONDS,
) -> Iterator[Record]:
    """Every record of these partitions from their log starts.

    A partition is read when its position equals an end that was fetched after it was reached:
    compaction can move a key past an end fetched before.

    Raises:
        FatalError: the reading stands still for ``patience_seconds``, or no such partition.
        RecoverableError: the broker does not answer.
    """
    starts = topics.log_starts(partitions)
    reader.assign(partitions)
    for partition, offset in starts.items():
        reader.seek(partition, offset)
    ends: dict[Partition, int] = {}
    left = set(partitions)
    since = clock.monotonic()
    while left:
        before = {p: reader.position(p) for p in left}
        reached = [p for p in left if before[p] >= ends.get(p, 0)]
        if reached:
            ends |= topics.log_ends(reached)
            left -= {p for p in reached if before[p] >= ends[p]}
        if not left:
            return
        yield from reader.poll(_POLL_SECONDS, _POLL_RECORDS)
        if any(reader.position(p) != at for p, at in before.items()):
            since = clock.monotonic()
        elif clock.monotonic() - since > patience_seconds:
            raise FatalError(f"reading {min(left)} stands still for {patience_seconds:g} s")


def read_span(
    reader: Reader,
    spans: dict[Partition, tuple[int, int]],
    clock: Clock,
    patience_seconds: float = PATIENCE_SECONDS,
) -> Iterator[Record]:
    """Every record from the first offset of each span up to, and without, its second.

    Raises:
        FatalError: the log no longer holds a first offset, or the reading stands still.
        RecoverableError: the broker does not answer.
    """
    left = {p for p, (first, end) in spans.items() if first < end}
    reader.assign(left)
    for partition in left:
        reader.seek(partition, spans[partition][0])
    since = clock.monotonic()
    while left:
        before = {p: reader.position(p) for p in left}
        for record in reader.poll(_POLL_SECONDS, _POLL_RECORDS):
            if record.offset < spans[record.partition][1]:
                yield record
        if any(reader.position(p) != at for p, at in before.items()):
            since = clock.monotonic()
        elif clock.monotonic() - since > patience_seconds:
            raise FatalError(f"reading {min(left)} stands still for {patience_seconds:g} s")
        done = {p for p in left if reader.position(p) >= spans[p][1]}
        left -= done
        if done:
            reader.assign(left)
