"""Sending to Apache Kafka: idempotent, acknowledged by all replicas, bounded in memory."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from kafka import KafkaProducer
from kafka import errors as kafka_errors

from broker.kafka.limits import Limits, milliseconds
from broker.kafka.node_choice import avoid_hanging
from broker.kafka.producer_repairs import (
    ask_again_for_ids,
    outlive_expiry,
    outlive_refusals,
    rest_while_connecting,
)
from broker.kafka.translate import translate, translated
from broker.transport import Headers
from estimators.errors import CalmstreamError, FatalError, RecoverableError

# Between two looks at the cluster's metadata while a new topic is waited for; the client's 100 ms
# make the first send to each of many topics slow: 20 s for 200 topics. At all other times they
# stand: a partition without a leader makes the client look without end.
_FIRST_SEND_PAUSE_MS = 10
_PAUSE = "retry_backoff_ms"


class KafkaDelivery:
    """A send on its way; see :class:`broker.transport.Delivery`."""

    def __init__(self, future: Any, doing: str) -> None:
        self._future = future
        self._doing = doing

    def wait(self, timeout: float) -> int:
        """The offset, once acknowledged."""
        with translated(self._doing):
            return int(self._future.get(timeout).offset)

    def done(self) -> bool:
        """Whether it has been acknowledged or has failed."""
        return bool(self._future.is_done)


class FailedDelivery:
    """A send that was refused before it left."""

    def __init__(self, error: CalmstreamError) -> None:
        self._error = error

    def wait(self, timeout: float) -> int:  # noqa: ARG002 - the protocol's; the answer is known
        """Raise why."""
        raise self._error

    def done(self) -> bool:
        """It is."""
        return True


class KafkaSink:
    """Appends records; see :class:`broker.transport.Sink`.

    Args:
        settings: how to reach the cluster, as the client's keyword arguments.
        limits: bounds.
        partitions: how many partitions a topic has, None if there is no such topic.
    """

    def __init__(
        self, settings: dict[str, Any], limits: Limits, partitions: Callable[[str], int | None]
    ) -> None:
        self._limits = limits
        self._partitions = partitions
        self._known: set[str] = set()
        self._meeting = threading.Lock()
        self._room = threading.Condition()
        self._held = 0
        self._closed = False
        self._producer = KafkaProducer(
            **settings,
            acks="all",
            enable_idempotence=True,
            allow_auto_create_topics=False,
            compression_type=limits.compression,
            linger_ms=milliseconds(limits.linger_seconds),
            batch_size=limits.batch_bytes,
            max_request_size=limits.max_request_bytes,
            max_block_ms=milliseconds(limits.block_seconds),
            delivery_timeout_ms=milliseconds(limits.delivery_seconds),
        )
        self._looks = self._producer._metadata.config  # noqa: SLF001 - no public way
        self._pause = self._looks[_PAUSE]
        outlive_refusals(self._producer)
        outlive_expiry(self._producer)
        ask_again_for_ids(self._producer)
        rest_while_connecting(self._producer)
        avoid_hanging(self._producer._sender._client)  # noqa: SLF001 - no public way

    def prepare(self, topics: Iterable[str]) -> None:
        """Learn all there is to ask about these topics, so that no send to them blocks for it."""
        for topic in topics:
            with translated(f"preparing to send to {topic}"):
                self._meet(topic)

    def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        *,
        partition: int | None = None,
        headers: Headers = (),
    ) -> KafkaDelivery | FailedDelivery:
        """Hand a record over; blocks up to ``block_seconds`` for room or a new topic's metadata."""
        doing = f"sending to {topic}"
        if self._closed:
            raise FatalError(f"{doing}: the sink is closed")
        size = len(key or b"") + len(value or b"")
        try:
            with translated(doing):
                self._meet(topic)
            self._take_room(size, doing)
        except CalmstreamError as error:
            return FailedDelivery(error)
        try:
            future = self._producer.send(
                topic, value=value, key=key, headers=list(headers), partition=partition
            )
        except (kafka_errors.KafkaError, ValueError) as error:
            self._give_room(size)
            return FailedDelivery(translate(error, doing))
        future.add_both(lambda *_: self._give_room(size))
        return KafkaDelivery(future, doing)

    def flush(self, timeout: float) -> None:
        """Wait for everything handed over."""
        with translated("flushing"):
            self._producer.flush(timeout)

    def close(self, timeout: float) -> None:
        """Flush and stop the client; what is not acknowledged by then is given up."""
        if self._closed:
            return
        self._closed = True
        try:
            self._producer.close(timeout)
        except Exception:  # noqa: BLE001 - closing must not raise
            # A flush that runs out of time leaves the client's thread running; this stops it.
            self._producer._sender.force_close()  # noqa: SLF001 - no public way

    def _meet(self, topic: str) -> None:
        """Ask once per topic, so that a missing one fails at once and not after a timeout."""
        if topic in self._known:
            return
        if self._partitions(topic) is None:
            raise FatalError(f"topic {topic} does not exist")
        with self._meeting:
            self._looks[_PAUSE] = _FIRST_SEND_PAUSE_MS
            try:
                self._producer.partitions_for(topic)
            finally:
                self._looks[_PAUSE] = self._pause
        self._known.add(topic)

    def _take_room(self, size: int, doing: str) -> None:
        deadline = time.monotonic() + self._limits.block_seconds
        with self._room:
            while self._held > 0 and self._held + size > self._limits.buffer_bytes:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise RecoverableError(
                        f"{doing}: {self._held} bytes wait for acknowledgement, no room for more"
                    )
                self._room.wait(left)
            self._held += size

    def _give_room(self, size: int) -> None:
        with self._room:
            self._held -= size
            self._room.notify_all()
