"""The worker that counts one plan of many."""

from __future__ import annotations

import threading

import structlog

from calmstream.broker.names import TopicNames
from calmstream.broker.shared.broker import PlanBroker
from calmstream.broker.transport import Partition, Reader, Topics
from calmstream.common.clock import Clock
from calmstream.consumer.metrics.registry import Metrics
from calmstream.consumer.metrics.tally import ASSIGNED
from calmstream.consumer.plans.timing import all_windows_closed_at
from calmstream.consumer.runtime.config import TallyConfig
from calmstream.consumer.runtime.foreign_records import ForeignRecordCounter
from calmstream.consumer.runtime.health import Verdict
from calmstream.consumer.runtime.read_topics import read_whole
from calmstream.consumer.tally.worker import TallyWorker
from calmstream.estimators.plan import Plan
from calmstream.estimators.wire.state import decode_state, partition_key

_LOOK_SECONDS = 60.0
"""Time between two looks at whether a plan that has ended needs a worker any more."""


class PlanTally:
    """A tally worker among those of other plans: a ``PlanWorker`` of ``served_plan``."""

    def __init__(
        self,
        plan: Plan,
        broker: PlanBroker,
        names: TopicNames,
        clock: Clock,
        config: TallyConfig,
        metrics: Metrics,
        stop: threading.Event,
    ) -> None:
        self._plan = plan
        self._broker = broker
        self._names = names
        self._clock = clock
        self._metrics = metrics
        self._stop = stop
        self._worker = TallyWorker(plan, broker, names, clock, config, metrics)
        self._over = False
        self._look_at = clock.monotonic()

    def start(self) -> None:
        """Verify the topics and take part in the group."""
        self._worker.start(self._stop)

    def turn(self) -> bool:
        """Do one round of the worker's loop."""
        self._worker.turn()
        self._look()
        return len(self._broker.share.queue) > 0

    def finish(self) -> None:
        """Write the last checkpoint."""
        self._worker.finish()
        self._metrics.set(ASSIGNED, 0)

    def abandon(self) -> None:
        """Write nothing more."""
        self._worker.abandon()
        self._metrics.set(ASSIGNED, 0)

    def verdict(self) -> Verdict:
        """Return the health of the worker: whether its partitions advance, and whether it works."""
        live = self._worker.health.live()
        return live if not live.well else self._worker.health.readiness()

    def silent_seconds(self) -> float:
        """Return the age of the last answer from a broker while requests fail; 0 otherwise."""
        return self._worker.health.silent_seconds

    def over(self) -> bool:
        """Return whether the state has all records of all partitions, and all windows closed."""
        return self._over

    def _look(self) -> None:
        """Look whether the plan is over, from time to time after its end."""
        now = self._clock.monotonic()
        if now < self._look_at or self._clock.now_ms() <= all_windows_closed_at(self._plan):
            return
        self._look_at = now + _LOOK_SECONDS
        reader, topics = self._broker.reader(), self._broker.topics()
        try:
            self._over = counted_everywhere(self._plan, self._names, reader, topics, self._clock)
        finally:
            reader.close()
            topics.close()


def counted_everywhere(
    plan: Plan, names: TopicNames, reader: Reader, topics: Topics, clock: Clock
) -> bool:
    """Return whether the state has every partition, read to its end, with all windows closed.

    Then no worker is needed: a record that still comes is late. Cost: reads the state topic once.
    """
    inputs = {
        partition_key(group, number): Partition(names.reports(group), number)
        for group in range(len(plan.groups))
        for number in range(plan.partitions)
    }
    ends = topics.log_ends(list(inputs.values()))
    counted: set[bytes] = set()
    foreign = ForeignRecordCounter(structlog.get_logger("calmstream.tally").warning)
    numbers = {names.state_partition(number) for number in range(plan.partitions)}
    partitions = [Partition(names.state, number) for number in sorted(numbers)]
    for record in read_whole(reader, topics, partitions, clock):
        partition = inputs.get(record.key or b"")
        if partition is None or record.value is None:
            continue
        with foreign.reading(record):
            state = decode_state(plan, names.group_of(partition.topic), record.value)
            if state.closed_through >= plan.windows - 1 and state.next_offset >= ends[partition]:
                counted.add(record.key or b"")
    return len(counted) == len(inputs)
