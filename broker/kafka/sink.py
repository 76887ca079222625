"""Sending to Apache Kafka: idempotent, acknowledged by all replicas, bounded in memory."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from kafka import errors as kafka_errors

from broker.kafka.client_repairs import RepairedProducer
from broker.kafka.client_repairs.first_sends import fast_metadata
from broker.kafka.client_repairs.missing_calls import force_close
from broker.kafka.limits import Limits, milliseconds
from broker.kafka.translate import translate, translated
from broker.transport import Headers
from estimators.errors import CalmstreamError, FatalError, MissingTopic, RecoverableError


class KafkaDelivery:
    """A send that has been handed over; see :class:`broker.transport.Delivery`."""

    def __init__(self, future: Any, doing: str) -> None:
        self._future = future
        self._doing = doing

    def wait(self, timeout: float) -> int:
        """Wait for the acknowledgement and return the offset."""
        with translated(self._doing):
            return int(self._future.get(timeout).offset)

    def done(self) -> bool:
        """Return whether the send was acknowledged or has failed."""
        return bool(self._future.is_done)


class FailedDelivery:
    """A send that was refused before it was handed over."""

    def __init__(self, error: CalmstreamError) -> None:
        self._error = error

    def wait(self, timeout: float) -> int:  # noqa: ARG002 - part of the protocol
        """Raise the error."""
        raise self._error

    def done(self) -> bool:
        """Return True."""
        return True


class KafkaSink:
    """Appends records; see :class:`broker.transport.Sink`.

    Args:
        settings: how to reach the cluster, as the client's keyword arguments.
        limits: times and sizes.
        partitions: how many partitions a topic has, None if there is no such topic.
    """

    def __init__(
        self, settings: dict[str, Any], limits: Limits, partitions: Callable[[str], int | None]
    ) -> None:
        self._limits = limits
        self._partitions = partitions
        self._prepared: set[str] = set()
        self._one_new_topic = threading.Lock()
        self._room = threading.Condition()
        self._held = 0
        self._closed = False
        self._producer = RepairedProducer(
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

    def prepare(self, topics: Iterable[str]) -> None:
        """Request the metadata of topics, so that later sends to them do not wait for it."""
        for topic in topics:
            with translated(f"preparing to send to {topic}"):
                self._ensure_metadata(topic)

    def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        *,
        partition: int | None = None,
        headers: Headers = (),
    ) -> KafkaDelivery | FailedDelivery:
        """Hand a record over; wait up to ``block_seconds`` for room or a new topic's metadata."""
        doing = f"sending to {topic}"
        if self._closed:
            raise FatalError(f"{doing}: the sink is closed")
        size = len(key or b"") + len(value or b"")
        try:
            with translated(doing):
                self._ensure_metadata(topic)
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
        """Wait until everything handed over is acknowledged or has failed."""
        with translated("flushing"):
            self._producer.flush(timeout)

    def close(self, timeout: float) -> None:
        """Flush and stop the client; records not acknowledged by then are given up."""
        if self._closed:
            return
        self._closed = True
        try:
            self._producer.close(timeout)
        except Exception:  # noqa: BLE001 - closing must not raise
            # The client's thread keeps running when its flush runs out of time.
            force_close(self._producer)

    def _ensure_metadata(self, topic: str) -> None:
        """Request a topic's metadata once, so that a missing topic fails at once."""
        if topic in self._prepared:
            return
        if self._partitions(topic) is None:
            raise MissingTopic(f"topic {topic} does not exist")
        with self._one_new_topic, fast_metadata(self._producer):
            self._producer.partitions_for(topic)
        self._prepared.add(topic)

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
