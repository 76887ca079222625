"""From the Kafka client's exceptions to two kinds: try again, or stop; one clear line each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kafka import errors as kafka_errors

from estimators.errors import CalmstreamError, FatalError, RecoverableError

# The client's exception types, and what to tell; looked up in this order, by isinstance.
_FATAL: tuple[tuple[tuple[type[Exception], ...], str], ...] = (
    ((kafka_errors.UnknownTopicOrPartitionError,), "the topic or partition does not exist"),
    ((kafka_errors.AuthorizationError,), "not authorised"),
    (
        (kafka_errors.SaslAuthenticationFailedError, kafka_errors.UnsupportedSaslMechanismError),
        "the broker refused the credentials",
    ),
    (
        (kafka_errors.MessageSizeTooLargeError, kafka_errors.RecordListTooLargeError),
        "the record is too large for the topic's max.message.bytes or for max_request_bytes",
    ),
    (
        (kafka_errors.OffsetOutOfRangeError, kafka_errors.LogTruncationError),
        "the position lies outside the log",
    ),
    ((kafka_errors.NoOffsetForPartitionError,), "no position yet, seek first"),
    (
        (kafka_errors.FencedInstanceIdError,),
        "another client took this static group membership",
    ),
    ((kafka_errors.InvalidTopicError,), "the topic's name is not allowed"),
    (
        (kafka_errors.InvalidRecordError,),
        "the broker refused the record, perhaps for want of a key",
    ),
    ((kafka_errors.PolicyViolationError,), "the topic's policy forbids it"),
)

# Not marked retriable by the client, but cured by joining again or by waiting.
_RECOVERABLE = (
    kafka_errors.BrokerNotAvailableError,
    kafka_errors.CommitFailedError,
    kafka_errors.IllegalGenerationError,
    kafka_errors.InvalidProducerEpochError,
    kafka_errors.OutOfOrderSequenceNumberError,
    kafka_errors.RebalanceInProgressError,
    kafka_errors.UnknownBrokerIdError,
    kafka_errors.UnknownError,
    kafka_errors.UnknownMemberIdError,
    kafka_errors.UnknownProducerIdError,
)


def translate(error: BaseException, doing: str) -> CalmstreamError:
    """What to raise for an error of the client, met while ``doing`` something."""
    if isinstance(error, CalmstreamError):
        return error
    for types, told in _FATAL:
        if isinstance(error, types):
            return FatalError(f"{doing}: {told}")
    if isinstance(error, kafka_errors.KafkaTimeoutError):
        return RecoverableError(f"{doing}: the broker did not answer in time")
    if isinstance(error, _RECOVERABLE) or getattr(error, "retriable", False):
        return RecoverableError(f"{doing}: the broker is not ready ({type(error).__name__})")
    if "AuthorizationFailed" in str(error):
        # As the producer reports that nothing at all may be written: a bare error with a text.
        return FatalError(f"{doing}: not authorised")
    return FatalError(f"{doing}: {type(error).__name__}: {_first_line(error)}")


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Let nothing but the two kinds escape from a block that talks to the client."""
    try:
        yield
    except CalmstreamError:
        raise
    except (kafka_errors.KafkaError, ValueError, TypeError, RuntimeError, OSError) as error:
        raise translate(error, doing) from error


def _first_line(error: BaseException) -> str:
    lines = str(error).splitlines()
    return lines[0][:200] if lines else "no details"
