"""Sending to an in-process broker; a send completes at once unless its partition is stalled."""

from __future__ import annotations

from collections.abc import Iterable

from calmstream.broker.in_process.cluster import Cluster
from calmstream.broker.transport import Headers, Partition
from calmstream.common.errors import CalmstreamError, FatalError, RecoverableError


class InProcessDelivery:
    """The result of one send; see `Delivery`."""

    def __init__(self, topic: str, cluster: Cluster) -> None:
        self._topic = topic
        self._lock = cluster.lock
        self._outcome: int | CalmstreamError | None = None

    def settle(self, outcome: int | CalmstreamError) -> None:
        self._outcome = outcome

    def wait(self, timeout: float) -> int:
        with self._lock:
            self._lock.wait_for(self.done, timeout)
            outcome = self._outcome
        if outcome is None:
            raise RecoverableError(f"{self._topic}: not acknowledged within {timeout:g} s")
        if isinstance(outcome, CalmstreamError):
            raise outcome
        return outcome

    def done(self) -> bool:
        return self._outcome is not None


class InProcessSink:
    """Appends records; see `Sink`. No send blocks."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._pending: list[InProcessDelivery] = []
        self.closed = False

    def prepare(self, topics: Iterable[str]) -> None:
        with self._cluster.lock:
            for topic in topics:
                self._cluster.logs(topic)

    def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        *,
        partition: int = 0,
        headers: Headers = (),
    ) -> InProcessDelivery:
        delivery = InProcessDelivery(topic, self._cluster)
        with self._cluster.lock:
            if self.closed:
                raise FatalError("the sink is closed")
            where = Partition(topic, partition)
            self._cluster.send(where, key, value, headers, delivery.settle)
            if not delivery.done():
                self._pending.append(delivery)
        return delivery

    def close(self, timeout: float = 0.0) -> None:
        with self._cluster.lock:
            if not self.closed:
                self.closed = True
                self._cluster.lock.wait_for(self._settled, timeout)

    def _settled(self) -> bool:
        self._pending = [delivery for delivery in self._pending if not delivery.done()]
        return not self._pending
