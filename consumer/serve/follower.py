"""Follows the snapshots topic of one plan, and recovers from every failure by itself."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from calmstream.broker.names import TopicNames
from calmstream.broker.transport import Broker
from calmstream.common.clock import Clock
from calmstream.common.errors import CalmstreamError, MissingTopic, RecoverableError
from calmstream.consumer.serve.problems import Problem, Refused
from calmstream.consumer.serve.results import Results
from calmstream.consumer.subscribe.assembler import Snapshot
from calmstream.consumer.subscribe.snapshot_topic import SnapshotTopic
from calmstream.estimators.plan import Plan
from calmstream.estimators.wire.snapshot import Kind, Manifest

CHECK_SECONDS = 3.0
"""Time between two requests for the end of the topic, which show whether the broker answers."""

_POLL_SECONDS = 0.2
_LOG = logging.getLogger("calmstream.serve")


class Follower:
    """Reads the snapshots topic from its start and keeps reading.

    Attributes:
        trouble: why the topic cannot be read now; None while it can.
        caught_up: whether it was read to its end once.
    """

    def __init__(
        self,
        plan: Plan,
        broker: Broker,
        names: TopicNames,
        results: Results,
        clock: Clock,
        *,
        announce: Callable[[Manifest], None],
        before_final: Callable[[], None],
        retry_seconds: float,
    ) -> None:
        self.trouble: Refused | None = None
        self.caught_up = False
        self._plan = plan
        self._broker = broker
        self._names = names
        self._results = results
        self._clock = clock
        self._announce = announce
        self._before_final = before_final
        self._retry_seconds = retry_seconds
        self._topic: SnapshotTopic | None = None

    def run(self, stop: threading.Event) -> None:
        """Follow until ``stop`` is set."""
        try:
            while not stop.is_set():
                try:
                    self._follow(stop)
                except RecoverableError as error:
                    self.trouble = Refused(Problem.UNAVAILABLE, str(error))
                except MissingTopic:
                    self._close()
                    self.trouble = self._missing()
                except CalmstreamError as error:
                    self._close()
                    self.trouble = Refused(Problem.UNREADABLE, str(error))
                except Exception as error:  # noqa: BLE001 - the thread lives, and says why
                    self._close()
                    _LOG.exception("reading %s failed", self._names.snapshots)
                    reason = f"reading failed: {type(error).__name__}; please report it"
                    self.trouble = Refused(Problem.UNREADABLE, reason)
                stop.wait(self._retry_seconds)
        finally:
            self._close()

    def silent_seconds(self) -> float:
        """Return the age of the last answer from a broker while requests fail; 0 otherwise."""
        topic = self._topic
        return 0.0 if topic is None else topic.watch.silent_seconds()

    def _follow(self, stop: threading.Event) -> None:
        """Read until stopped."""
        if self._topic is None:
            self._topic = SnapshotTopic(
                self._plan, self._broker, self._names, self._clock, _LOG.warning
            )
            self._results.clear()
            self.caught_up = False
        checked = self._clock.monotonic() - CHECK_SECONDS
        while not stop.is_set():
            self._topic.watch.turn()
            found = self._topic.sets(_POLL_SECONDS)
            for snapshot in found or ():
                self._take(snapshot)
            due = self._clock.monotonic() - checked >= CHECK_SECONDS
            if found is None and (due or not self.caught_up):
                self._check_end(self._topic)
                checked = self._clock.monotonic()

    def _take(self, snapshot: Snapshot) -> None:
        if snapshot.kind is Kind.FINAL and self.caught_up:
            self._before_final()
        self._results.take(snapshot)
        if self.caught_up:
            self._announce(snapshot.manifest)

    def _check_end(self, topic: SnapshotTopic) -> None:
        if topic.at_end() and not self.caught_up:
            self._before_final()
            self.caught_up = True
        self.trouble = None

    def _missing(self) -> Refused:
        over = self._clock.now_ms() >= self._plan.window_end(self._plan.windows - 1)
        topic = self._names.snapshots
        if over or self._results.newest is not None:
            return Refused(Problem.RETIRED, f"topic {topic} was deleted: its results are gone")
        return Refused(
            Problem.UNREADABLE, f"topic {topic} does not exist; create it: calmstream topics"
        )

    def _close(self) -> None:
        if self._topic is not None:
            self._topic.close()
        self._topic = None
