"""Whether a plan is counted to its end."""

from __future__ import annotations

from contextlib import closing

import structlog

from calmstream.broker.names import TopicNames
from calmstream.broker.transport import Broker, Partition
from calmstream.common.clock import Clock
from calmstream.consumer.runtime.ending import all_windows_closed_at
from calmstream.consumer.runtime.foreign_records import ForeignRecordCounter
from calmstream.consumer.runtime.read_topics import read_whole
from calmstream.estimators.plan import Plan
from calmstream.estimators.wire.state import decode_state, partition_key

_LOOK_SECONDS = 60.0
"""Time between two looks at whether a plan that has ended needs a worker any more."""


class PlanEnd:
    """Looks from time to time, after a plan has ended, whether everything is counted."""

    def __init__(self, plan: Plan, broker: Broker, names: TopicNames, clock: Clock) -> None:
        self.reached = False
        self._plan = plan
        self._broker = broker
        self._names = names
        self._clock = clock
        self._look_at = clock.monotonic()

    def turn(self) -> None:
        """Look if a look is due."""
        early = self._clock.now_ms() <= all_windows_closed_at(self._plan)
        now = self._clock.monotonic()
        if not self.reached and now >= self._look_at and not early:
            self._look_at = now + _LOOK_SECONDS
            self.reached = counted_everywhere(self._plan, self._broker, self._names, self._clock)


def counted_everywhere(plan: Plan, broker: Broker, names: TopicNames, clock: Clock) -> bool:
    """Return whether the state has every partition, read to its end, with all windows closed.

    Then no worker is needed: a record that still comes is late. Cost: reads the state topic once.
    """
    inputs = {
        partition_key(group, number): Partition(names.reports(group), number)
        for group in range(len(plan.groups))
        for number in range(plan.partitions)
    }
    counted: set[bytes] = set()
    foreign = ForeignRecordCounter(structlog.get_logger("calmstream.tally").warning)
    numbers = {names.state_partition(number) for number in range(plan.partitions)}
    partitions = [Partition(names.state, number) for number in sorted(numbers)]
    with closing(broker.topics()) as topics, closing(broker.reader()) as reader:
        ends = topics.log_ends(list(inputs.values()))
        for record in read_whole(reader, topics, partitions, clock):
            partition = inputs.get(record.key or b"")
            if partition is None or record.value is None:
                continue
            with foreign.reading(record):
                state = decode_state(plan, names.group_of(partition.topic), record.value)
                closed = state.closed_through >= plan.windows - 1
                if closed and state.next_offset >= ends[partition]:
                    counted.add(record.key or b"")
    return len(counted) == len(inputs)
