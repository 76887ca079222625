"""The publisher role: election of the active publisher, the loop, and broker failures."""

from __future__ import annotations

import threading

from broker.clock import Clock
from broker.names import TopicNames
from broker.transport import Broker, Partition, Topics
from consumer.metrics.publisher import ACTIVE, FAILURES, retire
from consumer.metrics.registry import Metrics
from consumer.publish.config import PublisherConfig
from consumer.publish.session import PublishingSession
from consumer.runtime.health import RoleHealth
from consumer.runtime.retry import RetryBudget
from consumer.runtime.topic_checks import verify_topics
from consumer.runtime.topic_watch import TopicWatch
from estimators.errors import FatalError, RecoverableError
from estimators.plan import Plan

_BACKOFF_SECONDS = 0.5
_CLOSE_SECONDS = 5.0

__all__ = ["Publisher", "PublisherConfig"]


class Publisher:
    """Turns the state topic into snapshots while it is the plan's active publisher.

    Publishers of a plan form a consumer group on the state topic; the one that is assigned its
    partition 0 is active and assigns itself the others. For a moment two may be active. That does
    no harm, since readers distinguish sets by their vectors.

    It has clients of its own and runs on a thread of its own, so that it never delays a tally
    worker's polls. A long estimate does not delay its own polls either. Only the properties are
    safe for use from several threads.

    Args:
        plan: what is published.
        broker: hands out the clients.
        names: the plan's topics.
        clock: for intervals and one metric only.
        config: see :class:`PublisherConfig`.
        metrics: from :func:`consumer.metrics.publisher.publisher_metrics`.

    Attributes:
        health: for the web server.
    """

    name = "publisher"

    def __init__(
        self,
        plan: Plan,
        broker: Broker,
        names: TopicNames,
        *,
        clock: Clock,
        config: PublisherConfig,
        metrics: Metrics,
    ) -> None:
        self.health = RoleHealth(self.name, clock)
        self._plan = plan
        self._broker = broker
        self._names = names
        self._clock = clock
        self._config = config
        self._metrics = metrics
        self._lead = Partition(names.state, 0)
        self._member = broker.group_reader(f"{names.output_prefix}.publisher")
        self._prepared = False
        self._topics: Topics | None = None
        self._session: PublishingSession | None = None
        self._busy = False
        self._last_turn = clock.monotonic()

    @property
    def active(self) -> bool:
        """Whether this is the plan's active publisher, by its last poll."""
        return self._session is not None

    @property
    def ready(self) -> bool:
        """Whether it is not active, or has read both topics to their ends."""
        work = self._session
        return work is None or work.caught_up

    @property
    def finished(self) -> bool:
        """Whether it is active and every window of the plan has a complete final and total."""
        work = self._session
        return work is not None and work.caught_up and work.finished

    @property
    def last_turn(self) -> float:
        """Monotonic time of the last turn that ended without an error."""
        return self._last_turn

    def run(self, stop: threading.Event) -> None:
        """Turn until asked to stop; leave the group before returning or raising.

        Raises:
            FatalError: a permanent failure, or one that has lasted for the retry budget; topics
                that are missing or have the wrong settings.
            InvalidInput: records of a newer version.
        """
        retries = RetryBudget(self._clock, self._config.retry_seconds)
        try:
            while not stop.is_set():
                try:
                    self.turn()
                    retries.succeeded()
                except RecoverableError as error:
                    self._metrics.inc(FAILURES)
                    if retries.failed():
                        raise FatalError(
                            f"publisher: no success for {retries.failing_seconds:.0f} s: {error}"
                        ) from error
                    stop.wait(_BACKOFF_SECONDS)
        finally:
            self.close()

    def turn(self) -> None:
        """One round: membership, then reading, then at most one set or one deletion.

        Raises:
            RecoverableError: may be called again; nothing is lost.
            FatalError: going on would be wrong.
            InvalidInput: records of a newer version.
        """
        if not self._prepared:
            self._prepare()
        self._watch.turn()
        waiting = 0.0 if self._session else self._config.poll_seconds
        self._member.poll(waiting)
        self._member.take_changes()
        leads = self._lead in self._member.assignment()
        if leads and self._session is None:
            self._begin_session()
        elif not leads and self._session is not None:
            self._end_session()
        if self._session is not None:
            # More may be due after a write, so this poll does not wait for records.
            self._busy = self._session.step(0.0 if self._busy else self._config.poll_seconds)
        self._last_turn = self._clock.monotonic()
        self.health.turned()
        if self.ready:
            self.health.ready()
        else:
            self.health.not_ready("reading the state and snapshots topics")

    def close(self) -> None:
        """Leave the group and release the clients. Idempotent."""
        self.health.not_ready("stopped")
        self._end_session()
        self._member.close(_CLOSE_SECONDS)
        if self._topics is not None:
            self._topics.close()

    def _prepare(self) -> None:
        topics = self._broker.topics()
        try:
            found = verify_topics(self._plan, self._names, topics)
        except BaseException:
            topics.close()
            raise
        self._topics = topics
        self._watch = TopicWatch(topics, found, self._clock, self._config.topic_check_seconds)
        self._member.subscribe([self._names.state])
        self._prepared = True

    def _begin_session(self) -> None:
        self._session = PublishingSession(
            self._plan,
            self._broker,
            self._names,
            clock=self._clock,
            config=self._config,
            metrics=self._metrics,
        )
        self._metrics.set(ACTIVE, 1)

    def _end_session(self) -> None:
        work, self._session, self._busy = self._session, None, False
        retire(self._metrics, self._plan)
        if work is not None:
            work.close(_CLOSE_SECONDS)
