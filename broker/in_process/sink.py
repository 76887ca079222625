"""Sending to an in-process broker; a send completes at once unless its partition is stalled."""

from __future__ import annotations

import time
from collections.abc import Iterable

from calmstream.broker.in_process.cluster import Cluster, Message
from calmstream.broker.in_process.monitor import Monitor
from calmstream.broker.transport import Headers
from calmstream.common.errors import CalmstreamError, FatalError, RecoverableError


class InProcessDelivery:
    """The result of one send; see `Delivery`."""

    def __init__(self, topic: str, monitor: Monitor) -> None:
        self._topic = topic
        self._monitor = monitor
        self._outcome: int | CalmstreamError | None = None

    def settle(self, outcome: int | CalmstreamError) -> None:
        """Set the outcome, unless it is set already. Called under the lock."""
        if self._outcome is None:
            self._outcome = outcome

    def wait(self, timeout: float) -> int:
        """Wait for the acknowledgement and return the offset."""
        deadline = time.monotonic() + timeout
        with self._monitor:
            self._monitor.wait_for(self.done, deadline)
            outcome = self._outcome
        if outcome is None:
            raise RecoverableError(f"{self._topic}: not acknowledged within {timeout:g} s")
        if isinstance(outcome, CalmstreamError):
            raise outcome
        return outcome

    def done(self) -> bool:
        """Return whether the send was acknowledged or has failed."""
        return self._outcome is not None


class InProcessSink:
    """Appends records; see `Sink`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._monitor = cluster.monitor
        self._pending: list[InProcessDelivery] = []
        self.closed = False

    def prepare(self, topics: Iterable[str]) -> None:
        """Check that the topics exist. There is nothing to request: no send blocks."""
        with self._monitor:
            for topic in topics:
                self._cluster.logs(topic)

    def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        *,
        partition: int | None = None,
        headers: Headers = (),
    ) -> InProcessDelivery:
        """Append a record, or queue it if its partition is stalled; never blocks."""
        delivery = InProcessDelivery(topic, self._monitor)
        with self._monitor:
            if self.closed:
                raise FatalError("the sink is closed")
            try:
                where = self._cluster.choose(topic, key, partition)
            except FatalError as error:
                delivery.settle(error)
                return delivery
            self._cluster.send(Message(where, key, value, headers), delivery.settle)
            if not delivery.done():
                self._pending.append(delivery)
        return delivery

    def flush(self, timeout: float) -> None:
        """Wait until no send is pending."""
        deadline = time.monotonic() + timeout
        with self._monitor:
            if not self._monitor.wait_for(self._settled, deadline):
                raise RecoverableError(
                    f"{len(self._pending)} sends not acknowledged within {timeout:g} s"
                )

    def close(self, timeout: float) -> None:
        """Flush and refuse further sends."""
        if not self.closed:
            self.closed = True
            deadline = time.monotonic() + timeout
            with self._monitor:
                self._monitor.wait_for(self._settled, deadline)

    def _settled(self) -> bool:
        self._pending = [delivery for delivery in self._pending if not delivery.done()]
        return not self._pending
