"""Repair of a producer that can send nothing more after one batch expired.

A batch expires if it is not acknowledged in time.
Fault: after such a batch, kafka-python drops the producer's id and the sequence numbers of its
records, because it does not know whether the broker appended the batch. But it requests an id only
when it starts.
Effect: every later send waits until its time limit and fails.
Repair: when the id is dropped, the state that makes the client ask for an id is restored.
"""

from __future__ import annotations

from kafka.producer.transaction_manager import TransactionManager, TransactionState


def request_new_id_after_expiry(manager: TransactionManager) -> None:
    """Let the producer request a new id after it has dropped its id."""
    reset = manager.reset_producer_id

    def reset_and_ask() -> None:
        reset()
        with manager._lock:
            # In the other states the client asks for an id anyway, or has failed for good.
            if manager._current_state == TransactionState.READY:
                manager._current_state = TransactionState.UNINITIALIZED

    manager.reset_producer_id = reset_and_ask
