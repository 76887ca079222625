"""Where kafka-python's producer gives up, or wears itself out, and need not: four repairs.

All are made on one producer's own parts, through names that are not public.
"""

from __future__ import annotations

from typing import Any

from kafka import KafkaProducer
from kafka import errors as kafka_errors
from kafka.producer.transaction_manager import TransactionState

_CONNECTING_PAUSE_MS = 20.0


def outlive_refusals(producer: KafkaProducer) -> None:
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


def ask_again_for_ids(producer: KafkaProducer) -> None:
    """Let the producer ask again for its id when a broker has not answered in time.

    kafka-python 3.0 asks again after a lost connection, but takes a request that timed out for the
    end: from then on the producer fails whatever it is given. Any broker can give an id.
    """
    manager = producer._transaction_manager  # noqa: SLF001 - no public way
    enqueue = manager._enqueue_request  # noqa: SLF001 - the same

    def patient(handler: Any) -> None:
        if not handler.is_retry:  # a repetition comes with what it was given the first time
            complete = handler.on_complete
            handler.on_complete = lambda number, answer: complete(number, _told(answer))
        enqueue(handler)

    manager._enqueue_request = patient  # noqa: SLF001 - the same


def _told(answer: object) -> object:
    if isinstance(answer, kafka_errors.RetriableError):
        return kafka_errors.KafkaConnectionError(str(answer))
    return answer


def outlive_expiry(producer: KafkaProducer) -> None:
    """Let the producer go on after a batch that had been tried was given up.

    Whether such a batch was appended is not known, so kafka-python 3.0 drops the producer's id
    with its numbering; but it asks for an id only at its start, and so sends nothing ever again.
    """
    manager = producer._transaction_manager  # noqa: SLF001 - no public way
    reset = manager.reset_producer_id

    def anew() -> None:
        reset()
        with manager._lock:  # noqa: SLF001 - the same
            if manager._current_state == TransactionState.READY:  # noqa: SLF001 - the same
                manager._current_state = TransactionState.UNINITIALIZED  # noqa: SLF001 - the same

    manager.reset_producer_id = anew


def rest_while_connecting(producer: KafkaProducer) -> None:
    """Let the producer wait a little for a node it is not connected to.

    kafka-python 3.0 looks again at once, so that a node that takes connections and answers nothing
    costs a whole core; and it takes the seconds of a pause before connecting for milliseconds.
    """
    client = producer._sender._client  # noqa: SLF001 - no public way
    manager = client._manager  # noqa: SLF001 - the same

    def delay_ms(node: object) -> float:
        return max(_CONNECTING_PAUSE_MS, 1000 * float(manager.connection_delay(node)))

    client.connection_delay = delay_ms
