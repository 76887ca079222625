"""The end of a plan: refuse reports, wait for the last finals, delete all but the snapshots."""

from __future__ import annotations

import threading
from contextlib import suppress

import structlog

from broker.clock import Clock
from broker.names import TopicNames
from broker.transport import Broker, Partition, Topics
from consumer.runtime.foreign_records import key_of
from consumer.runtime.health import RoleHealth
from consumer.subscribe.assembler import SnapshotAssembler
from estimators.errors import FatalError, ForeignRecord, RecoverableError
from estimators.plan import Plan
from estimators.wire.snapshot import Kind

TICK_ONLY_BYTES = 128
"""Largest message while a plan is retired: above a tick with its batch header (89 bytes) and below
the smallest report, compressed or not (over 150 bytes)."""

_POLL_SECONDS = 0.5
_SLACK_SECONDS = 120.0


def stop_admission(topics: Topics, names: TopicNames) -> None:
    """Make the reports topics refuse every report; ticks still fit, so that windows close.

    Raises:
        FatalError: a topic is missing or may not be altered.
    """
    topics.alter(names.all_reports, {"max.message.bytes": str(TICK_ONLY_BYTES)})


def last_window(plan: Plan, now_ms: int) -> int:
    """Return the last window that can have reports by now; -1 before the plan's start."""
    return max(-1, min(plan.window_at(now_ms + plan.skew * 1000), plan.windows - 1))


def delete_topics(topics: Topics, names: TopicNames) -> list[str]:
    """Delete reports, state and dead letters, and return the deleted names; snapshots stay."""
    topics_to_delete = [*names.all_reports, names.state, names.dead_letters]
    there = sorted(topics.describe(topics_to_delete))
    topics.delete(there)
    return there


class FinalsWaiter:
    """A role that ends once every window through one has a complete final and total.

    Runs beside a tally worker and a publisher, whose work it waits for.

    Args:
        plan: the plan.
        broker: for a reader of the snapshots topic.
        names: of the plan's topics.
        clock: for the deadline.
        through: last window to wait for.

    Attributes:
        health: as every role has.
        found: windows whose final and total are complete.
    """

    name = "retire"

    def __init__(
        self, plan: Plan, broker: Broker, names: TopicNames, clock: Clock, through: int
    ) -> None:
        self.health = RoleHealth(self.name, clock)
        self.found = 0
        self._plan = plan
        self._broker = broker
        self._names = names
        self._clock = clock
        self._through = through

    def deadline_ms(self) -> int:
        """Return the wall time by which all windows must be closed and published."""
        closes = self._plan.window_end(self._through) + self._plan.grace * 1000
        return max(closes, self._clock.now_ms()) + round(_SLACK_SECONDS * 1000)

    def run(self, stop: threading.Event) -> None:
        """Follow the snapshots topic.

        Raises:
            FatalError: asked to stop before, or the finals were not published in time.
        """
        deadline = self.deadline_ms()
        topics, reader = self._broker.topics(), self._broker.reader()
        where = Partition(self._names.snapshots, 0)
        assembler = SnapshotAssembler(self._plan.digest)
        try:
            reader.assign([where])
            reader.seek(where, topics.log_starts([where])[where])
            while not self._done(assembler):
                if stop.is_set():
                    raise FatalError(
                        "interrupted: nothing was deleted; reports stay refused; run it again"
                    )
                if self._clock.now_ms() > deadline:
                    raise FatalError(
                        f"{self._through + 1 - self.found} finals are missing long after their "
                        "windows closed; nothing was deleted; see calmstream inspect"
                    )
                try:
                    for record in reader.poll(_POLL_SECONDS):
                        with suppress(ForeignRecord):
                            assembler.read(key_of(record), record.value)
                except RecoverableError as error:
                    structlog.get_logger("calmstream.retire").warning("waiting", error=str(error))
                    stop.wait(_POLL_SECONDS)
                self.health.turned()
        finally:
            reader.close()
            topics.close()

    def _done(self, assembler: SnapshotAssembler) -> bool:
        self.found = sum(
            assembler.complete(window, Kind.FINAL) and assembler.complete(window, Kind.TOTAL)
            for window in range(self._through + 1)
        )
        return self.found > self._through
