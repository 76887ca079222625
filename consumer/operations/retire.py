"""Ends a plan: refuses reports, waits for the last finals, deletes all topics but the snapshots."""

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
"""Maximum size of a message while a plan is retired. A tick (a record without reports that advances
the time of a log) has 89 bytes with its batch header; the smallest report has over 150 bytes,
compressed or not."""

# Maximum time of one poll.
_POLL_SECONDS = 0.5
# Additional time for estimating and publishing the last windows.
_SLACK_SECONDS = 120.0


def stop_admission(topics: Topics, names: TopicNames) -> None:
    """Make the reports topics refuse every report. Ticks still fit, so that windows can close.

    Raises:
        FatalError: a topic is missing, or this client may not change its settings.
    """
    topics.alter(names.all_reports, {"max.message.bytes": str(TICK_ONLY_BYTES)})


def last_window(plan: Plan, now_ms: int) -> int:
    """Return the number of the last window that can have reports now; -1 before the start."""
    return max(-1, min(plan.window_at(now_ms + plan.skew * 1000), plan.windows - 1))


def delete_topics(topics: Topics, names: TopicNames) -> list[str]:
    """Delete the topics of reports, state and dead letters; return their names. Snapshots stay."""
    topics_to_delete = [*names.all_reports, names.state, names.dead_letters]
    existing = sorted(topics.describe(topics_to_delete))
    topics.delete(existing)
    return existing


class FinalsWaiter:
    """A role that ends when every window up to a given one has a complete final and total.

    It runs in the same process as a tally worker and a publisher, and waits for their work.

    Args:
        plan: the plan to retire.
        broker: the connection to the broker.
        names: names of the plan's topics.
        clock: measures the deadline.
        through: number of the last window to wait for.

    Attributes:
        health: the role's health, which the web server reports.
        found: number of windows whose final and total are complete.
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
        """Return the time by which all windows must be published, milliseconds since the epoch."""
        closes = self._plan.window_end(self._through) + self._plan.grace * 1000
        return max(closes, self._clock.now_ms()) + round(_SLACK_SECONDS * 1000)

    def run(self, stop: threading.Event) -> None:
        """Read the snapshots topic until all finals and totals are complete.

        Raises:
            FatalError: the role was asked to stop before, or the deadline has passed.
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
