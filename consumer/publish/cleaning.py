"""Deletes records of the state and snapshots topics that no reader and no worker needs any more."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from calmstream.broker.transport import Partition, TopicInfo, Topics
from calmstream.common.errors import FatalError
from calmstream.consumer.publish.config import PublisherContext
from calmstream.consumer.publish.follower import TopicFollower
from calmstream.consumer.publish.set_writer import KeyedRecord, SetWriter
from calmstream.estimators.wire.snapshot import Kind, parse_key
from calmstream.estimators.wire.state import closed_key

_MOST_RECORDS = 10_000
"""Maximum number of deletions of each kind at once."""


class Cleaner:
    """Writes tombstones from time to time."""

    def __init__(
        self,
        context: PublisherContext,
        follower: TopicFollower,
        topics: Topics,
        writer: SetWriter,
        counts: TopicInfo,
    ) -> None:
        self._names = context.names
        self._follower = follower
        self._topics = topics
        self._writer = writer
        self._clock = context.clock
        self._config = context.config
        self._counts = counts
        self._next = self._clock.monotonic()

    def clean(self) -> int:
        """Delete what is not needed, if it is time; return the number of tombstones."""
        now = self._clock.monotonic()
        if now < self._next:
            return 0
        self._next = now + self._config.clean_seconds
        closed: dict[int, list[KeyedRecord]] = {}
        for group, partition, window in islice(self._unneeded_closed(), _MOST_RECORDS):
            closed.setdefault(partition, []).append((closed_key(group, partition, window), None))
        if closed:
            self._check_counts()
        for number, records in closed.items():
            self._writer.deliver(self._names.state, records, number)
        early: list[KeyedRecord] = [
            (key, None) for key in islice(self._outdated_early(), _MOST_RECORDS)
        ]
        self._writer.deliver(self._names.snapshots, early, 0)
        return len(early) + sum(map(len, closed.values()))

    def _check_counts(self) -> None:
        """Check that the counts are still there: nobody could compute them again."""
        now = self._topics.describe([self._names.counts], ()).get(self._names.counts)
        if now is None or now.id != self._counts.id:
            raise FatalError(
                f"topic {self._names.counts} was deleted while it was in use; closed records stay; "
                "create it again (calmstream topics) and start again"
            )

    def _unneeded_closed(self) -> Iterator[tuple[int, int, int]]:
        """Yield (group, partition, window) of the closed records that can be deleted.

        The window's final and total were read complete, and the partition's log starts above the
        record that closed it: no worker can count it, and write the closed record, again.
        """
        complete = self._follower.completeness.both
        settled = [one for one in self._follower.merger.closed_records() if complete(one[2])]
        inputs = {Partition(self._names.reports(g), p) for g, p, _, _ in settled}
        starts = self._topics.log_starts(inputs) if inputs else {}
        for group, partition, window, closed_at in settled:
            if starts[Partition(self._names.reports(group), partition)] > closed_at:
                yield group, partition, window

    def _outdated_early(self) -> Iterator[bytes]:
        """Yield the keys of early records of windows whose final is complete, manifests first.

        A publisher that is no longer active may write one once more: the next cleaning deletes it.
        """
        early = self._follower.early_keys
        for window in sorted(early):
            if self._follower.assembler.complete(window, Kind.FINAL):
                yield from sorted(early[window], key=lambda key: not parse_key(key)[2])
