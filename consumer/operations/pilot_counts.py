"""What a plan has counted so far in its closed windows, from its state topic alone."""

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
    """Counts of all windows that are closed.

    Attributes:
        tallies: one per group, summed over the plan's partitions.
        windows: how many windows every partition has closed.
    """

    tallies: tuple[Tally, ...]
    windows: int

    @property
    def reports(self) -> int:
        """Reports over all groups."""
        return sum(tally.reports for tally in self.tallies)


def counted(plan: Plan, broker: Broker, names: TopicNames, clock: Clock) -> Counted:
    """Read the state topic once; nothing is joined or written.

    Raises:
        FatalError: there is no such topic (any more), or it holds what does not belong there.
        RecoverableError: the broker does not answer.
    """
    topics, reader = broker.topics(), broker.reader()
    try:
        if names.state not in topics.describe([names.state]):
            raise FatalError(
                f"topic {names.state} does not exist: its counts are gone, or were never there"
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
    whole = len(states) == len(plan.groups) * plan.partitions
    closed = 1 + min(state.closed_through for state in states.values()) if whole else 0
    return Counted(tuple(tallies), closed)
