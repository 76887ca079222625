"""A producer stops for good after the broker has refused one record.

Fault: kafka-python puts an idempotent producer into its fatal state when a record is refused for
good: too large, without the key that its topic needs, or not authorised.
Effect: everything else that waits fails with that record's error, and so does every later send.
Repair: such an error asks for a new producer epoch, as the client does after other errors. That is
all that the numbering of records needs.
"""

from __future__ import annotations

from kafka.producer.transaction_manager import TransactionManager


def survive_refused_records(manager: TransactionManager) -> None:
    """Let the producer continue after the broker has refused one record."""
    classify = manager.classify_batch_error
    fatal_for_producer = manager._FATAL_ERRORS

    def classify_gently(error: BaseException, batch: object, log_start_offset: int = -1) -> str:
        found: str = classify(error, batch, log_start_offset=log_start_offset)
        if found == manager.ERROR_CLASS_FATAL and type(error) not in fatal_for_producer:
            return str(manager.ERROR_CLASS_NEEDS_EPOCH_BUMP)
        return found

    manager.classify_batch_error = classify_gently
