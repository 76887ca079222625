"""Reads the counts of a plan through its newest final window.

A pilot is a short plan whose counts help to choose the settings of the main plan. Kept counts stay
after the plan is retired.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass

from calmstream.broker.names import TopicNames
from calmstream.broker.transport import Broker
from calmstream.common.clock import Clock
from calmstream.consumer.read.kept import KeptCounts
from calmstream.estimators.plan import Plan
from calmstream.estimators.tally import Tally


@dataclass(frozen=True, slots=True)
class PilotCounts:
    """The counts of each group in all final windows, and the number of these windows."""

    tallies: tuple[Tally, ...]
    windows: int

    @property
    def reports(self) -> int:
        return sum(tally.reports for tally in self.tallies)


def counted(plan: Plan, broker: Broker, names: TopicNames, clock: Clock) -> PilotCounts:
    """Return the running total of the newest final window; reads once and writes nothing."""
    with closing(KeptCounts(plan, broker, names, clock)) as kept:
        kept.refresh()
        newest = kept.newest()
        total = None if newest is None else kept.tallies(newest)[1]
        if newest is None or total is None:
            return PilotCounts((), 0)
        return PilotCounts(tuple(total), newest + 1)
