"""The records of a topic of one partition, from the oldest on, with one policy for retries."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

from calmstream.broker.names import TopicNames
from calmstream.broker.topic_watch import EVERY_SECONDS, TopicWatch, plan_judge
from calmstream.broker.transport import Partition, Reader, Record, Topics
from calmstream.common.clock import Clock, SystemClock
from calmstream.common.errors import MissingTopic, RecoverableError
from calmstream.consumer.runtime.retry import RetryBudget
from calmstream.estimators.plan import Plan

# Pause after a failed call to the broker.
_BACKOFF_SECONDS = 0.5


class TopicRecords:
    """Reads a topic from its start; repeats calls that fail.

    Attributes:
        answered: monotonic time of the last answer from a broker; None before the first.
    """

    def __init__(
        self, reader: Reader, topics: Topics, topic: str, create: str = "calmstream topics"
    ) -> None:
        self._create = create
        self._reader = reader
        self._topics = topics
        self._partition = Partition(topic, 0)
        self._started = False
        self.answered: float | None = None

    def records(
        self,
        wants_end: Callable[[], bool],
        follow: bool,
        stop: threading.Event,
        poll_seconds: float,
        retry_seconds: float,
    ) -> Iterator[Record | None]:
        """Yield all records, and None each time the end of the topic was reached."""
        clock = SystemClock()
        retries = RetryBudget(clock, retry_seconds)
        while not stop.is_set():
            records: list[Record] = []
            ended = False
            try:
                if not self._started:
                    self.start()
                seek_end = wants_end() or not follow
                # While the caller waits for the end, a short poll finds it sooner.
                records = self._reader.poll(min(poll_seconds, 0.1) if seek_end else poll_seconds)
                ended = seek_end and not records and self.at_end()
                retries.succeeded()
                self.answered = clock.monotonic()
            except RecoverableError:
                if retries.failed():
                    raise
                stop.wait(_BACKOFF_SECONDS)
            yield from records
            if ended:
                yield None
                if not follow:
                    return

    def start(self) -> None:
        """Let the reader begin with the oldest record."""
        # Only offsets are requested, so that a subscriber needs no permission other than READ.
        try:
            start = self._topics.log_starts([self._partition])[self._partition]
        except MissingTopic as error:
            raise MissingTopic(
                f"topic {self._partition.topic} does not exist; create it: {self._create}"
            ) from error
        self._reader.assign([self._partition])
        self._reader.seek(self._partition, start)
        self._started = True

    def at_end(self) -> bool:
        position = self._reader.position(self._partition)
        return position >= self._topics.log_ends([self._partition])[self._partition]


def watch_of_snapshots(
    plan: Plan,
    names: TopicNames,
    topics: Topics,
    clock: Clock,
    *,
    every_seconds: float = EVERY_SECONDS,
    retry_seconds: float | None = None,
) -> TopicWatch:
    """Return the watch of a reader of results, which may not read settings."""
    found = topics.describe([names.snapshots], ())
    return TopicWatch(
        plan_judge(plan, names, found),
        topics,
        found,
        clock,
        every_seconds=every_seconds,
        retry_seconds=retry_seconds,
    )
