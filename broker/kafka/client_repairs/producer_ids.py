"""Repair of a producer that fails for good when one request for its producer id times out.

Fault: kafka-python repeats the request after a lost connection, but treats a timeout of the request
as a fatal error.
Effect: one broker that does not answer makes every later send of the producer fail.
Repair: any retriable error is reported to the client as a lost connection, so that the client
repeats the request with any broker.
"""

from __future__ import annotations

from typing import Any

from kafka import errors as kafka_errors
from kafka.producer.transaction_manager import TransactionManager


def retry_id_requests(manager: TransactionManager) -> None:
    """Let the producer request its id again if a broker has not answered in time."""
    enqueue = manager._enqueue_request

    def enqueue_with_retry(handler: Any) -> None:
        if not handler.is_retry:  # the handler of a repeated request is already changed
            complete = handler.on_complete
            handler.on_complete = lambda number, answer: complete(number, _retriable(answer))
        enqueue(handler)

    manager._enqueue_request = enqueue_with_retry


def _retriable(answer: object) -> object:
    """Return the answer unchanged, but any retriable error as a lost connection."""
    if isinstance(answer, kafka_errors.RetriableError):
        return kafka_errors.KafkaConnectionError(str(answer))
    return answer
