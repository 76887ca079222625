"""Ends a plan: refuses reports, waits for the last finals, deletes all topics but the results."""

from __future__ import annotations

import threading
from contextlib import closing

import structlog

from calmstream.broker.names import TopicNames
from calmstream.broker.transport import Broker, Topics
from calmstream.common.clock import Clock
from calmstream.common.errors import FatalError, RecoverableError
from calmstream.common.health import RoleHealth
from calmstream.consumer.read.kept import KeptCounts
from calmstream.consumer.subscribe.snapshot_topic import SnapshotTopic
from calmstream.estimators.plan import Plan
from calmstream.estimators.wire.snapshot import Kind, Manifest

TICK_ONLY_BYTES = 96
"""Maximum size of a message while a plan is retired. A tick (a record without reports that advances
the time of a log) has 89 bytes with its batch header; the smallest report has 111 bytes."""

# Maximum time of one poll.
_POLL_SECONDS = 0.5
# Additional time for estimating and publishing the last windows.
_SLACK_SECONDS = 120.0


def stop_admission(topics: Topics, names: TopicNames) -> None:
    """Make the reports topics refuse every report. Ticks still fit, so that windows can close."""
    topics.alter(names.all_reports, {"max.message.bytes": str(TICK_ONLY_BYTES)})


def last_window(plan: Plan, now_ms: int) -> int:
    """Return the number of the last window that can have reports now; -1 before the start."""
    return max(-1, min(plan.window_at(now_ms + plan.skew * 1000), plan.windows - 1))


def delete_topics(topics: Topics, names: TopicNames, *, counts: bool = False) -> list[str]:
    """Delete the topics of reports, state and dead letters; return their names. Snapshots stay."""
    topics_to_delete = [*names.all_reports, names.state, names.dead_letters]
    topics_to_delete += [names.counts] if counts else []
    existing = sorted(topics.describe(topics_to_delete))
    topics.delete(existing)
    return existing


class FinalsWaiter:
    """A role that ends when every window up to a given one has its final, counts and total."""

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
        self._finals: dict[int, Manifest] = {}
        self._totals: set[int] = set()
        self._log = structlog.get_logger("calmstream.retire")

    def deadline_ms(self) -> int:
        """Return the time by which all windows must be published, milliseconds since the epoch."""
        closes = self._plan.window_end(self._through) + self._plan.grace * 1000
        return max(closes, self._clock.now_ms()) + round(_SLACK_SECONDS * 1000)

    def run(self, stop: threading.Event) -> None:
        deadline, wanted = self.deadline_ms(), (self._plan, self._broker, self._names, self._clock)
        with (
            closing(SnapshotTopic(*wanted, self._log.warning)) as topic,
            closing(KeptCounts(*wanted)) as kept,
        ):
            while lacking := self._lacking(kept):
                if self._clock.now_ms() > deadline:
                    counts = sum(w in self._finals and w in self._totals for w in lacking)
                    only = f" ({counts} of them lack only their counts)" if counts else ""
                    raise FatalError(
                        f"{len(lacking)} finals are missing{only} long after their windows closed; "
                        "nothing was deleted; see calmstream inspect"
                    )
                self._turn(topic, kept, stop)

    def _lacking(self, kept: KeptCounts) -> list[int]:
        def complete(window: int) -> bool:
            final = self._finals.get(window)
            if final is None or window not in self._totals:
                return False
            return not final.counts or kept.revision(window) == final.revision

        lacking = [window for window in range(self._through + 1) if not complete(window)]
        self.found = self._through + 1 - len(lacking)
        return lacking

    def _turn(self, topic: SnapshotTopic, kept: KeptCounts, stop: threading.Event) -> None:
        if stop.is_set():
            raise FatalError("interrupted: nothing was deleted; reports stay refused; run it again")
        try:
            for one in topic.sets(_POLL_SECONDS) or ():
                if one.kind is Kind.FINAL:
                    self._finals[one.window] = one.manifest
                elif one.kind is Kind.TOTAL:
                    self._totals.add(one.window)
            kept.refresh()
        except RecoverableError as error:
            self._log.warning("waiting", error=str(error))
            stop.wait(_POLL_SECONDS)
        self.health.turned()
