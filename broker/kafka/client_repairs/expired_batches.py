"""A producer sends nothing more after a batch that had been tried was given up.

Fault: it is unknown whether such a batch was appended, so kafka-python drops the producer's id
together with the numbering of its records. It asks for an id only at its start.
Effect: every later send waits until its time is over and fails.
Repair: when the id is dropped, the state that makes the client ask for an id is restored.
"""

from __future__ import annotations

from kafka.producer.transaction_manager import TransactionManager, TransactionState


def request_new_id_after_expiry(manager: TransactionManager) -> None:
    """Let the producer ask for another id after it has dropped the one that it had."""
    reset = manager.reset_producer_id

    def reset_and_ask() -> None:
        reset()
        with manager._lock:
            if manager._current_state == TransactionState.READY:
                manager._current_state = TransactionState.UNINITIALIZED

    manager.reset_producer_id = reset_and_ask
