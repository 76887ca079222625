"""Repair of a producer that hides the type of an authorisation error.

Fault: a broker refuses a producer id if the principal may not write to any topic. kafka-python then
raises a plain ``KafkaError`` with the text of the refusal.
Effect: only its text distinguishes the error from a defect of the software.
Repair: the producer fails with the broker's own error type.
"""

from __future__ import annotations

from typing import Any

from kafka import errors as kafka_errors
from kafka.producer.transaction_manager import TransactionManager


def keep_error_types(manager: TransactionManager) -> None:
    """Let a producer whose id was refused fail with the broker's own authorisation error."""
    enqueue = manager._enqueue_request

    def enqueue_with_type(handler: Any) -> None:
        if not handler.is_retry:  # the handler of a repeated request is already changed
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
