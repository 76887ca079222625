"""Reads the counts of a plan's closed windows from its state topic.

A pilot is a short plan whose counts help to choose the settings of the main plan.
"""

from __future__ import annotations

from dataclasses import dataclass

from broker.clock import Clock
from broker.names import TopicNames
from broker.transport import Broker
from consumer.operations.inspect import newest_states
from estimators.errors import FatalError
from estimators.plan import Plan
from estimators.tally import Tally


@dataclass(frozen=True, slots=True)
class Counted:
    """The counts of all closed windows.

    Attributes:
        tallies: the counts of each group, summed over the plan's partitions.
        windows: number of windows that every partition has closed.
    """

    tallies: tuple[Tally, ...]
    windows: int

    @property
    def reports(self) -> int:
        """The number of reports of all groups."""
        return sum(tally.reports for tally in self.tallies)


def counted(plan: Plan, broker: Broker, names: TopicNames, clock: Clock) -> Counted:
    """Return the counts of all closed windows. Reads once, joins no group and writes nothing.

    Args:
        plan: the plan whose counts are read.
        broker: the connection to the broker.
        names: names of the plan's topics.
        clock: measures the time without progress while the topic is read.

    Raises:
        FatalError: the topic does not exist, or contains a record of a newer version of calmstream.
        RecoverableError: the broker does not answer.
    """
    topics, reader = broker.topics(), broker.reader()
    try:
        if names.state not in topics.describe([names.state]):
            raise FatalError(
                f"topic {names.state} does not exist: the plan was retired, or its topics were not "
                "created"
            )
        states = newest_states(plan, names, topics, reader, clock)
    finally:
        reader.close()
        topics.close()
    tallies = [
        Tally.zero(len(group.views), mechanism.width)
        for group, mechanism in zip(plan.groups, plan.mechanisms, strict=True)
    ]
    for (group, _), state in states.items():
        tallies[group] = tallies[group] + state.total.tally
    complete = len(states) == len(plan.groups) * plan.partitions
    closed = 1 + min(state.closed_through for state in states.values()) if complete else 0
    return Counted(tuple(tallies), closed)
