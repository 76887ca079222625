"""A producer stops for good when one request for its id times out.

Fault: kafka-python repeats the request after a lost connection, but treats a request that timed out
as the end.
Effect: one broker that does not answer makes every later send of the producer fail.
Repair: a retriable error is handed to the client as a lost connection. Any broker can give an id.
"""

from __future__ import annotations

from typing import Any

from kafka import errors as kafka_errors
from kafka.producer.transaction_manager import TransactionManager


def retry_id_requests(manager: TransactionManager) -> None:
    """Let the producer ask again for its id when a broker has not answered in time."""
    enqueue = manager._enqueue_request

    def enqueue_with_retry(handler: Any) -> None:
        if not handler.is_retry:  # a repetition keeps the replaced method of the first request
            complete = handler.on_complete
            handler.on_complete = lambda number, answer: complete(number, _retriable(answer))
        enqueue(handler)

    manager._enqueue_request = enqueue_with_retry


def _retriable(answer: object) -> object:
    """Return the answer, or a lost connection in place of any retriable error."""
    if isinstance(answer, kafka_errors.RetriableError):
        return kafka_errors.KafkaConnectionError(str(answer))
    return answer
