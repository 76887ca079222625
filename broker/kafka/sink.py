"""Sending to Apache Kafka: idempotent, acknowledged by all replicas, bounded in memory."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from kafka import KafkaProducer
from kafka import errors as kafka_errors

from broker.kafka.limits import Limits, milliseconds
from broker.kafka.translate import translate, translated
from broker.transport import Headers
from estimators.errors import CalmstreamError, FatalError, RecoverableError

# Between two looks at the cluster's metadata; the client's 100 ms make the first send to each of
# many topics slow: 20 s for 200 topics.
_METADATA_PAUSE_MS = 10


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
        # The client does not pass its own setting on to where it counts.
        self._producer._metadata.config["retry_backoff_ms"] = _METADATA_PAUSE_MS  # noqa: SLF001
        _outlive_refusals(self._producer)

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
            self._check_exists(topic)
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

    def _check_exists(self, topic: str) -> None:
        """Ask once per topic, so that a missing one fails at once and not after a timeout."""
        if topic not in self._known:
            if self._partitions(topic) is None:
                raise FatalError(f"topic {topic} does not exist")
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


def _outlive_refusals(producer: KafkaProducer) -> None:
    """Let the producer go on after the broker has refused one record.

    kafka-python 3.0 puts an idempotent producer into its fatal state when a record is refused for
    good (too large, without the key it needs, not authorised), and then fails whatever else is
    waiting with that record's error. A new producer epoch, which it asks for after other errors,
    is all that the numbering of records needs.
    """
    manager = producer._transaction_manager  # noqa: SLF001 - no public way
    classify = manager.classify_batch_error
    lasting = manager._FATAL_ERRORS  # noqa: SLF001 - the same

    def gentler(error: BaseException, batch: object, log_start_offset: int = -1) -> str:
        verdict: str = classify(error, batch, log_start_offset=log_start_offset)
        if verdict == manager.ERROR_CLASS_FATAL and type(error) not in lasting:
            return str(manager.ERROR_CLASS_NEEDS_EPOCH_BUMP)
        return verdict

    manager.classify_batch_error = gentler
