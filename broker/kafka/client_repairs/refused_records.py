"""Repair of a producer that fails for good after the broker has refused one record.

Fault: kafka-python puts an idempotent producer into its fatal state when the broker refuses a
record because it is too large, lacks the key that its topic needs, or is not authorised.
Effect: all other waiting records and every later send fail with the error of that record.
Repair: after such an error the client requests a new producer epoch, as it does after other errors.
The sequence numbers of its records then start again, so that later sends succeed.
"""

from __future__ import annotations

from kafka.producer.transaction_manager import TransactionManager


def survive_refused_records(manager: TransactionManager) -> None:
    """Let the producer continue after the broker has refused one record."""
    classify = manager.classify_batch_error
    fatal_for_producer = manager._FATAL_ERRORS

    def classify_gently(error: BaseException, batch: object, log_start_offset: int = -1) -> str:
        error_class: str = classify(error, batch, log_start_offset=log_start_offset)
        if error_class == manager.ERROR_CLASS_FATAL and type(error) not in fatal_for_producer:
            return str(manager.ERROR_CLASS_NEEDS_EPOCH_BUMP)
        return error_class

    manager.classify_batch_error = classify_gently
