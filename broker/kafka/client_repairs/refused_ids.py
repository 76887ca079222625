"""A producer that is not authorised fails with an error without a type.

Fault: when a broker refuses a producer id because the principal may write to no topic at all,
kafka-python wraps the refusal into a plain ``KafkaError`` and keeps only its text.
Effect: sends fail with an error that differs from a defect in its text only.
Repair: the producer fails with the broker's own error.
"""

from __future__ import annotations

from typing import Any

from kafka import errors as kafka_errors
from kafka.producer.transaction_manager import TransactionManager


def keep_error_types(manager: TransactionManager) -> None:
    """Let a producer whose id was refused fail with the broker's own authorisation error."""
    enqueue = manager._enqueue_request

    def enqueue_with_type(handler: Any) -> None:
        if not handler.is_retry:  # a repetition keeps the replaced method of the first request
            handle = handler.handle_response

            def handle_response(response: Any) -> None:
                error = kafka_errors.for_code(getattr(response, "error_code", 0))
                if issubclass(error, kafka_errors.AuthorizationError):
                    handler.fatal_error(error())
                else:
                    handle(response)

            handler.handle_response = handle_response
        enqueue(handler)

    manager._enqueue_request = enqueue_with_type
