"""The thread that sends sealed batches until the broker has them or their window is over."""

from __future__ import annotations

import contextlib
import queue
from collections import deque
from collections.abc import Callable

import structlog

from calmstream.broker.names import TopicNames
from calmstream.broker.transport import Broker, Sink
from calmstream.common.clock import Clock
from calmstream.common.errors import CalmstreamError, FatalError, RecoverableError
from calmstream.estimators.plan import Plan
from calmstream.producer.gateway.durable.plan_spool import over_at
from calmstream.producer.gateway.durable.spool import Spool
from calmstream.producer.gateway.encoding import EncodedBatch
from calmstream.producer.gateway.http.committer import Committer
from calmstream.producer.gateway.metrics import Failure
from calmstream.producer.gateway.sender import BatchSender

POLL_SECONDS = 0.02  # between two turns while batches are not settled
IDLE_SECONDS = 0.5  # longest wait for a batch where all are settled
CONNECT_SECONDS = 2.0  # between two attempts to connect
RENEW_SECONDS = 30.0  # least age of a connection that is replaced after an error that lasts
LOG_SECONDS = 60.0  # between two errors that are logged while sending fails

_LOG = structlog.get_logger("calmstream.gateway")
_LOST = {
    Failure.EXPIRED: "batch lost: its window ended before the broker had it",
    Failure.DAMAGED: "batch lost: the disk of the spool has changed it",
}


class BatchDelivery:
    """Sends what the committer has sealed, of all plans, over one connection.

    Memory: the bodies of at most ``BatchSender.most`` batches per plan, and 200 bytes for each
    other batch that waits. The committer gets each batch once, and whether it was acknowledged.
    ``turned`` is when the loop last turned, on the monotonic clock. Sending fails from an error of
    the broker or of the disk until a batch is acknowledged and none that failed still waits.
    """

    def __init__(
        self,
        spool: Spool,
        committer: Committer,
        broker: Broker,
        names: Callable[[Plan], TopicNames],
        clock: Clock,
    ) -> None:
        self._spool = spool
        self._committer = committer
        self._broker = broker
        self._names = names
        self._clock = clock
        self._stop_at: float | None = None
        # By plan the sender of its batches, and those that wait for it.
        self._plans: dict[str, tuple[BatchSender, deque[EncodedBatch]]] = {}
        self._sink: Sink | None = None
        self._attempted_at = -CONNECT_SECONDS
        self._failed_at: float | None = None  # the latest error, while sending fails
        self._logged_at = 0.0
        self.turned = clock.monotonic()

    def stop(self, seconds: float) -> None:
        """End :meth:`run` when everything is settled, or after ``seconds``."""
        self._stop_at = self._clock.monotonic() + seconds

    def run(self) -> None:
        """Work until :meth:`stop`. What is not settled then stays in the spool."""
        while True:
            stop_at = self._stop_at  # read first: a whole turn follows, which takes what waits
            self.turn(self._pause())
            if stop_at is not None and (not self._busy() or self._clock.monotonic() >= stop_at):
                return

    def turn(self, seconds: float = 0.0) -> None:
        """Send what is due and note what is settled; before, wait up to ``seconds`` for a batch."""
        with contextlib.suppress(queue.Empty):
            while True:
                batch = self._committer.sealed.get(timeout=seconds)
                seconds, digest = 0.0, batch.plan.digest
                if digest not in self._plans:
                    self._plans[digest] = self._sender(batch.plan), deque()
                self._plans[digest][1].append(batch)
        self.turned = self._clock.monotonic()
        self._connect_if_due()
        sent = [self._step(*each) for each in self._plans.values()]
        failing = any(sender.failing for sender, _ in self._plans.values())
        if any(sent) and self._failed_at not in (None, self.turned) and not failing:
            self._failed_at = None
            _LOG.info("sending works again")

    def _note(self, error: CalmstreamError) -> None:
        """Log the first error, and then one a minute: each batch can have another text."""
        if self._failed_at is None or self.turned - self._logged_at >= LOG_SECONDS:
            self._logged_at = self.turned
            _LOG.warning("sending fails", error=str(error))
        self._failed_at = self.turned

    def _busy(self) -> bool:
        return any(waiting or sender.in_flight for sender, waiting in self._plans.values())

    def _pause(self) -> float:
        return POLL_SECONDS if self._busy() or self._stop_at is not None else IDLE_SECONDS

    def _connect_if_due(self) -> None:
        now = self._clock.monotonic()
        if self._sink is None and now - self._attempted_at >= CONNECT_SECONDS:
            self._attempted_at = now
            try:
                self._sink = self._broker.sink()
            except (RecoverableError, FatalError) as error:
                self._note(error)

    def _present_sink(self) -> Sink:
        if self._sink is None:
            raise RecoverableError("there is no connection to the broker")
        return self._sink

    def _sender(self, plan: Plan) -> BatchSender:
        return BatchSender(
            self._names(plan),
            self._present_sink,
            totals=self._spool.plans[plan.digest].totals,
            clock=self._clock,
        )

    def _lose(self, batch: EncodedBatch, why: Failure) -> None:
        _LOG.warning(
            _LOST[why],
            plan=batch.plan.digest[:8],
            group=batch.group,
            window=batch.period,
            reports=batch.n,
        )
        self._committer.settled.put((batch, False))

    def _step(self, sender: BatchSender, waiting: deque[EncodedBatch]) -> bool:
        """Return whether a batch was acknowledged."""
        present = self._spool.mark.present()
        self._send_waiting(sender, waiting, present)
        acknowledged = sender.step()
        for each in acknowledged:
            self._committer.settled.put((each, True))
        for batch, error in sender.take_failed():
            self._note(error)
            if isinstance(error, FatalError):
                self._renew()
            encoded = batch.encoded
            if present >= over_at(encoded.plan, encoded.period):  # else the sender repeats it
                sender.give_up(batch, Failure.EXPIRED, error)
                self._lose(encoded, Failure.EXPIRED)
        return bool(acknowledged)

    def _send_waiting(
        self, sender: BatchSender, waiting: deque[EncodedBatch], present: int
    ) -> None:
        def lose(batch: EncodedBatch, why: Failure) -> None:
            waiting.popleft()
            sender.totals.failed(batch.n, why)
            self._lose(batch, why)

        while waiting:
            batch = waiting[0]
            if present >= over_at(batch.plan, batch.period):
                lose(batch, Failure.EXPIRED)
                continue
            if sender.full or self._sink is None:
                break
            try:
                encoded = self._spool.plans[batch.plan.digest].body(batch)
            except RecoverableError as error:
                self._note(error)
                break
            except FatalError as error:
                self._note(error)
                lose(batch, Failure.DAMAGED)
                continue
            waiting.popleft()
            sender.submit(encoded)

    def _renew(self) -> None:
        """Make a new connection after an error that lasts: some clients never recover from one."""
        if self._sink is not None and self._clock.monotonic() - self._attempted_at >= RENEW_SECONDS:
            self._sink.close(0.0)
            self._sink = None

    @property
    def waiting(self) -> int:
        """Batches that are not settled; safe from any thread."""
        plans = list(self._plans.values())
        return self._committer.sealed.qsize() + sum(len(w) + s.in_flight for s, w in plans)

    def close(self) -> None:
        if self._sink is not None:
            self._sink.close(0.0)
