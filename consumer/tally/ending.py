"""Whether a plan is counted to its end."""

from __future__ import annotations

from contextlib import closing

from calmstream.broker.names import TopicNames
from calmstream.broker.transport import Broker
from calmstream.common.clock import Clock
from calmstream.consumer.runtime.ending import all_windows_closed_at
from calmstream.consumer.runtime.read_topics import read_whole
from calmstream.consumer.tally.states import newest_states
from calmstream.estimators.plan import Plan

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
        early = self._clock.now_ms() <= all_windows_closed_at(self._plan)
        now = self._clock.monotonic()
        if not self.reached and now >= self._look_at and not early:
            self._look_at = now + _LOOK_SECONDS
            self.reached = self._counted_everywhere()

    def _counted_everywhere(self) -> bool:
        """Return whether the state has every partition, read to its end, with all windows closed.

        Then no worker is needed: a record that still comes is late. Cost: reads the state topic.
        """
        plan, names, clock = self._plan, self._names, self._clock
        inputs = names.inputs
        with closing(self._broker.topics()) as topics, closing(self._broker.reader()) as reader:
            ends = topics.log_ends(inputs)
            states = newest_states(
                plan, names, inputs, lambda where: read_whole(reader, topics, where, clock)
            )
        return len(states) == len(inputs) and all(
            state.closed_through >= plan.windows - 1 and state.next_offset >= ends[partition]
            for partition, state in states.items()
        )
