"""Sending to Apache Kafka: idempotent, acknowledged by all replicas, with bounded memory."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterable
from typing import Any

from kafka import errors as kafka_errors

from calmstream.broker.kafka.client_repairs.missing_calls import announce_topics, force_close
from calmstream.broker.kafka.client_repairs.producers import RepairedProducer
from calmstream.broker.kafka.limits import CLOSE_SECONDS, KafkaLimits, milliseconds
from calmstream.broker.kafka.topics import KafkaTopics
from calmstream.broker.kafka.translate import translate, translated
from calmstream.broker.transport import FailedDelivery, Headers
from calmstream.common.errors import CalmstreamError, FatalError, RecoverableError

_BATCH_BYTES = 256 << 10
# Of one record; the topic has its own limit, too. The largest state record has 8 MiB.
_RECORD_BYTES = 9 << 20


class KafkaDelivery:
    """The result of a send that the Kafka client accepted; see `Delivery`."""

    def __init__(self, future: Any, doing: str) -> None:
        self._future = future
        self._doing = doing

    def wait(self, timeout: float) -> int:
        with translated(self._doing, "WRITE"):
            return int(self._future.get(timeout).offset)

    def done(self) -> bool:
        return bool(self._future.is_done)


class KafkaSink:
    """Appends records; see `Sink`."""

    def __init__(
        self,
        settings: dict[str, Any],
        limits: KafkaLimits,
        topics: KafkaTopics,
    ) -> None:
        self._limits = limits
        self._topics = topics
        self._existing: set[str] = set()
        self._prepared: set[str] = set()
        self._buffer_changed = threading.Condition()
        self._buffered_bytes = 0
        self.closed = False
        self._producer = RepairedProducer(
            **settings,
            acks="all",
            enable_idempotence=True,
            allow_auto_create_topics=False,
            linger_ms=milliseconds(limits.linger_seconds),
            batch_size=_BATCH_BYTES,
            max_request_size=_RECORD_BYTES,
            max_block_ms=milliseconds(limits.block_seconds),
            delivery_timeout_ms=milliseconds(limits.delivery_seconds),
        )

    def prepare(self, topics: Iterable[str]) -> None:
        new = [topic for topic in topics if topic not in self._prepared]
        if new:
            with translated(f"preparing to send to {new[0]}", "WRITE"):
                self._check_exist(new)
        # The answer to the request for the first topic then has all of them.
        announce_topics(self._producer, new)
        for topic in new:
            with translated(f"preparing to send to {topic}", "WRITE"):
                self._ensure_metadata(topic)

    def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        *,
        partition: int = 0,
        headers: Headers = (),
    ) -> KafkaDelivery | FailedDelivery:
        doing = f"sending to {topic}"
        if self.closed:
            raise FatalError(f"{doing}: the sink is closed")
        size = len(key or b"") + len(value or b"")
        try:
            with translated(doing, "WRITE"):
                self._ensure_metadata(topic)
            self._reserve(size, doing)
        except CalmstreamError as error:
            return FailedDelivery(error)
        try:
            future = self._producer.send(
                topic, value=value, key=key, headers=list(headers), partition=partition
            )
        except (kafka_errors.KafkaError, ValueError) as error:
            self._release(size)
            return FailedDelivery(translate(error, doing, "WRITE"))
        future.add_both(lambda *_: self._release(size))
        return KafkaDelivery(future, doing)

    def close(self, timeout: float = CLOSE_SECONDS) -> None:
        if self.closed:
            return
        self.closed = True
        try:
            self._producer.close(timeout)
        except Exception:  # noqa: BLE001 - closing must not raise
            # The client's thread continues to run if its flush did not finish in time.
            force_close(self._producer)

    def _ensure_metadata(self, topic: str) -> None:
        """Request a topic's metadata before its first record, so that a missing topic fails now."""
        if topic in self._prepared:
            return
        self._check_exist([topic])
        self._producer.partitions_for(topic)
        self._prepared.add(topic)

    def _check_exist(self, topics: Collection[str]) -> None:
        self._existing.update(self._topics.partitions(set(topics) - self._existing))

    def _reserve(self, size: int, doing: str) -> None:
        """Wait for room in the buffer; a record larger than the buffer may use it alone."""
        deadline = time.monotonic() + self._limits.block_seconds
        limit = self._limits.buffer_bytes
        with self._buffer_changed:
            while self._buffered_bytes > 0 and self._buffered_bytes + size > limit:
                remaining = deadline - time.monotonic()
                if remaining <= 0:
                    raise RecoverableError(
                        f"{doing}: {self._buffered_bytes} bytes wait for acknowledgement, "
                        "no room for more"
                    )
                self._buffer_changed.wait(remaining)
            self._buffered_bytes += size

    def _release(self, size: int) -> None:
        with self._buffer_changed:
            self._buffered_bytes -= size
            self._buffer_changed.notify_all()
