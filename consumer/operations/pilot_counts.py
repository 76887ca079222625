"""Reads the counts of a plan's closed windows: kept ones, or else those of the state topic.

A pilot is a short plan whose counts help to choose the settings of the main plan. Kept counts stay
after the plan is retired; the state topic does not.
"""

from __future__ import annotations

from dataclasses import dataclass

from calmstream.broker.names import TopicNames
from calmstream.broker.transport import Broker, Topics
from calmstream.common.clock import Clock
from calmstream.common.errors import FatalError
from calmstream.consumer.read.kept import KeptCounts
from calmstream.consumer.runtime.read_topics import read_whole
from calmstream.consumer.tally.states import newest_states
from calmstream.estimators.plan import Plan
from calmstream.estimators.tally import Tally


@dataclass(frozen=True, slots=True)
class PilotCounts:
    """The counts of all closed windows.

    Attributes:
        tallies: the counts of each group, summed over the plan's partitions.
        windows: number of windows that every partition has closed; of kept counts, of windows
            that are final.
    """

    tallies: tuple[Tally, ...]
    windows: int

    @property
    def reports(self) -> int:
        """The number of reports of all groups."""
        return sum(tally.reports for tally in self.tallies)


def counted(plan: Plan, broker: Broker, names: TopicNames, clock: Clock) -> PilotCounts:
    """Return the counts of all closed windows. Reads once, joins no group and writes nothing.

    They are the running total of the newest final window, where it is kept.
    """
    topics = broker.topics()
    try:
        found = None
        if topics.describe([names.counts], ()):
            found = _kept(plan, broker, names, clock)
        return found or _of_states(plan, broker, topics, names, clock)
    finally:
        topics.close()


def _kept(plan: Plan, broker: Broker, names: TopicNames, clock: Clock) -> PilotCounts | None:
    """Return the running total of the newest final window; None if it is not kept."""
    kept = KeptCounts(plan, broker, names, clock)
    try:
        kept.refresh()
        newest = kept.newest()
        if newest is None or not kept.kept(newest):
            return None
        _, total = kept.tallies(newest)
        return None if total is None else PilotCounts(tuple(total), newest + 1)
    finally:
        kept.close()


def _of_states(
    plan: Plan, broker: Broker, topics: Topics, names: TopicNames, clock: Clock
) -> PilotCounts:
    """Return the counts of all closed windows as workers keep them."""
    if names.state not in topics.describe([names.state]):
        raise FatalError(
            f"topic {names.state} does not exist: the plan was retired without kept counts, or its "
            "topics were not created"
        )
    reader = broker.reader()
    try:
        states = newest_states(
            plan, names, names.inputs, lambda where: read_whole(reader, topics, where, clock)
        )
    finally:
        reader.close()
    tallies = [
        Tally.zero(len(group.views), mechanism.width)
        for group, mechanism in zip(plan.groups, plan.mechanisms, strict=True)
    ]
    for partition, state in states.items():
        group = names.group_of(partition.topic)
        tallies[group] = tallies[group] + state.total.tally
    complete = len(states) == len(names.inputs)
    closed = 1 + min(state.closed_through for state in states.values()) if complete else 0
    return PilotCounts(tuple(tallies), closed)
