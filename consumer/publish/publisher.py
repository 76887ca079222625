"""The publisher of a plan: it finds out whether it is the active one, and publishes."""

from __future__ import annotations

import threading

from calmstream.broker.transport import Broker, Partition
from calmstream.common.errors import RecoverableError
from calmstream.consumer.metrics.publisher import ACTIVE, FAILURES, not_active
from calmstream.consumer.publish.config import PublisherContext
from calmstream.consumer.publish.estimate_runner import EstimateRunner
from calmstream.consumer.publish.session import PublishingSession
from calmstream.consumer.runtime.context import all_windows_closed_at
from calmstream.consumer.runtime.retry import RetryBudget

# Pause after a failed round.
_BACKOFF_SECONDS = 0.5
# Maximum wait for each client to close.
_CLOSE_SECONDS = 5.0


class Publisher:
    """Publishes the counts of the state topic while it is the active one; a `PlanWorker`.

    The member of the group on the state topic that has partition 0 is active; it reads all
    partitions. Two active ones do no harm: readers combine only records of equal revisions, and
    never go back to a lower revision.
    """

    def __init__(
        self, context: PublisherContext, broker: Broker, estimates: EstimateRunner | None = None
    ) -> None:
        names = context.names
        self.name = context.role
        self.health = context.health
        self._config = context.config
        self._context = context
        self._broker = broker
        self._estimates = estimates
        self._lead = Partition(names.state, 0)
        self._member = broker.group_reader(names.group("publisher"))
        self._session: PublishingSession | None = None
        self._busy = False
        self._retries = RetryBudget(context.clock, context.config.retry_seconds)
        not_active(context.metrics)

    @property
    def active(self) -> bool:
        return self._session is not None

    @property
    def ready(self) -> bool:
        """Whether this publisher is not active, or has read state and snapshots to their ends."""
        session = self._session
        return session is None or session.caught_up

    @property
    def finished(self) -> bool:
        """Whether this publisher is active and every window has a complete final and total."""
        session = self._session
        return session is not None and session.caught_up and session.finished

    def start(self, stop: threading.Event) -> None:
        context, self._context.stop = self._context, stop
        self._watch = context.watch(self._broker.topics())
        context.retry("joining the group", lambda: self._member.subscribe([context.names.state]))

    def turn(self) -> bool:
        """Do one round; repeat what fails. Return whether more may be due at once."""
        try:
            self._round()
        except RecoverableError as error:
            self._context.metrics.inc(FAILURES)
            self._retries.note_failure("the broker", error)
            self._context.clock.sleep(_BACKOFF_SECONDS)
            return False
        self._retries.succeeded()
        return self._busy

    def finish(self) -> None:
        """End: everything that was published is acknowledged."""
        self.abandon()

    def over(self) -> bool:
        """Return whether every final and total is published, and early sets could be deleted."""
        cleaned = all_windows_closed_at(self._context.plan) + 2000 * self._config.clean_seconds
        return self.finished and self._context.clock.now_ms() > cleaned

    def _round(self) -> None:
        """Poll the group, read, then write at most one set or delete once."""
        self._watch.turn()
        waiting = 0.0 if self._session else self._config.poll_seconds
        self._member.poll(waiting)
        self._member.take_changes()  # only the present assignment matters
        leads = self._lead in self._member.assignment()
        if leads and self._session is None:
            self._begin_session()
        elif not leads and self._session is not None:
            self._end_session()
        if self._session is not None:
            # After a write, more may be due at once, so the next poll does not wait for records.
            self._busy = self._session.step(0.0 if self._busy else self._config.poll_seconds)
        self.health.turned()
        self.health.watched(self._watch.silent_seconds, self._watch.fault)
        reading = "" if self.ready else "reading the state, snapshots and counts topics"
        self.health.member(self._member.joined(), reading)

    def abandon(self) -> None:
        """Leave the group and close the clients. Idempotent."""
        self.health.not_ready("stopped")
        self._end_session()
        self._member.close(_CLOSE_SECONDS)

    def _begin_session(self) -> None:
        self._session = PublishingSession(self._context, self._broker, self._estimates)
        self._context.metrics.set(ACTIVE, 1)

    def _end_session(self) -> None:
        session, self._session, self._busy = self._session, None, False
        not_active(self._context.metrics)
        if session is not None:
            session.close(_CLOSE_SECONDS)
