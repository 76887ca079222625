"""Repairs of producers; docs/upstream explains each fault.

A fault of the first three makes every later send fail.
"""

from __future__ import annotations

from typing import Any

from kafka import KafkaProducer
from kafka import errors as kafka_errors
from kafka.net.compat import KafkaNetClient
from kafka.producer.transaction_manager import TransactionManager, TransactionState

from calmstream.broker.kafka.client_repairs.nodes import avoid_hanging_nodes, keep_refreshing

# Short enough not to delay a new connection noticeably, long enough to cost hardly any CPU time.
_CONNECTING_PAUSE_MS = 20.0


def survive_refused_records(manager: TransactionManager) -> None:
    """Request a new producer epoch after the broker has refused one record, as after others.

    Fault: too large a record, or one without key or permission, is fatal for the producer.
    """
    classify = manager.classify_batch_error
    fatal_for_producer = manager._FATAL_ERRORS

    def classify_gently(error: BaseException, batch: object, log_start_offset: int = -1) -> str:
        error_class: str = classify(error, batch, log_start_offset=log_start_offset)
        if error_class == manager.ERROR_CLASS_FATAL and type(error) not in fatal_for_producer:
            return str(manager.ERROR_CLASS_NEEDS_EPOCH_BUMP)
        return error_class

    manager.classify_batch_error = classify_gently


def request_new_id_after_expiry(manager: TransactionManager) -> None:
    """Request a new producer id after one batch was not acknowledged in time.

    Fault: the client then drops its id, but requests one only when it starts.
    """
    reset = manager.reset_producer_id

    def reset_and_ask() -> None:
        reset()
        with manager._lock:
            # In the other states the client asks for an id anyway, or has failed for good.
            if manager._current_state == TransactionState.READY:
                manager._current_state = TransactionState.UNINITIALIZED

    manager.reset_producer_id = reset_and_ask


def retry_id_requests(manager: TransactionManager) -> None:
    """Report any retriable error of a request for the producer id as a lost connection.

    Fault: the client repeats the request only after a lost connection; a timeout is fatal.
    """
    enqueue = manager._enqueue_request

    def enqueue_with_retry(handler: Any) -> None:
        if not handler.is_retry:  # the handler of a repeated request is already changed
            complete = handler.on_complete
            handler.on_complete = lambda number, answer: complete(number, _retriable(answer))
        enqueue(handler)

    manager._enqueue_request = enqueue_with_retry


def _retriable(answer: object) -> object:
    if isinstance(answer, kafka_errors.RetriableError):
        return kafka_errors.KafkaConnectionError(str(answer))
    return answer


def pause_while_connecting(client: KafkaNetClient) -> None:
    """Pause before a node without a connection is checked again.

    Fault: a node that accepts connections and answers nothing costs a whole core, because the
    client loops without a pause, and takes a delay in seconds for milliseconds.
    """
    manager = client._manager

    def delay_ms(node: object) -> float:
        return max(_CONNECTING_PAUSE_MS, 1000 * float(manager.connection_delay(node)))

    client.connection_delay = delay_ms


class RepairedProducer(KafkaProducer):  # type: ignore[misc]  # the client has no types
    """An idempotent producer with all repairs.

    The client's constructor starts a thread, which asks for a producer id at once. The repairs are
    therefore made on the producer's parts as soon as the constructor sets them.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "_transaction_manager" and value is not None:
            survive_refused_records(value)
            request_new_id_after_expiry(value)
            retry_id_requests(value)
        elif name == "_sender" and value is not None:
            pause_while_connecting(value._client)
            avoid_hanging_nodes(value._client)
            keep_refreshing(value._client)
        super().__setattr__(name, value)
