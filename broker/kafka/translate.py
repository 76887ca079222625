"""Translates the exceptions of the Kafka client into recoverable and fatal errors of one line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from kafka import errors as kafka_errors

from calmstream.common.errors import CalmstreamError, FatalError, MissingTopic, RecoverableError

_REFUSED = "the broker refused the credentials"
_TOO_LARGE = "the record is too large for the topic's max.message.bytes or for the client"
_OUTSIDE = "the position lies outside the log"

_FATAL: Mapping[type[Exception], str] = {
    kafka_errors.SaslAuthenticationFailedError: _REFUSED,
    kafka_errors.UnsupportedSaslMechanismError: _REFUSED,
    kafka_errors.MessageSizeTooLargeError: _TOO_LARGE,
    kafka_errors.RecordListTooLargeError: _TOO_LARGE,
    kafka_errors.OffsetOutOfRangeError: _OUTSIDE,
    kafka_errors.LogTruncationError: _OUTSIDE,
    kafka_errors.NoOffsetForPartitionError: "no position yet, seek first",
    kafka_errors.InvalidTopicError: "the topic's name is not allowed",
    kafka_errors.InvalidRecordError: "the broker refused the record, perhaps because it has no key",
    kafka_errors.PolicyViolationError: "the topic's policy forbids it",
}
"""Exception types of the client that are fatal, with our messages; the first match decides."""

# The client does not mark these errors as retriable, but to wait or to join the group again helps.
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


def lacks(right: str, doing: str, topics: Iterable[str] = ()) -> FatalError:
    why = f"not authorised: the principal lacks {right} (calmstream acl lists what roles need)"
    return FatalError(f"{doing}: {why}", topics)


def translate(error: BaseException, doing: str, right: str = "") -> CalmstreamError:
    """Return the error to raise instead; ``right`` is the operation that needs a permission."""
    if isinstance(error, CalmstreamError):
        return error
    if isinstance(error, kafka_errors.UnknownTopicOrPartitionError):
        return MissingTopic(f"{doing}: the topic or partition does not exist")
    if type(error) is kafka_errors.KafkaError and "AuthorizationFailed" in str(error):
        error = kafka_errors.AuthorizationError()  # the client hides the type of a refused id
    if isinstance(error, kafka_errors.AuthorizationError):
        of_group = isinstance(error, kafka_errors.GroupAuthorizationFailedError)
        right += " on the group" if of_group else ""
        return lacks(right, doing, _topics(error))
    for fatal, meaning in _FATAL.items():
        if isinstance(error, fatal):
            return FatalError(f"{doing}: {meaning}", _topics(error))
    late = isinstance(error, kafka_errors.KafkaTimeoutError)
    if late or isinstance(error, _RECOVERABLE) or getattr(error, "retriable", False):
        why = "did not answer in time" if late else f"is not ready ({type(error).__name__})"
        return RecoverableError(f"{doing}: the broker {why}")
    return FatalError(f"{doing}: {type(error).__name__}: {_first_line(error)}")


@contextmanager
def translated(doing: str | Callable[[], str], right: str = "") -> Iterator[None]:
    try:
        yield
    except CalmstreamError:
        raise
    except (kafka_errors.KafkaError, ValueError, TypeError, RuntimeError, OSError) as error:
        raise translate(error, doing if isinstance(doing, str) else doing(), right) from error


def _topics(error: BaseException) -> set[str]:
    """Return the topics that the client names in an exception: partitions, or topics by name."""
    named = error.args[0] if error.args else ()
    if isinstance(named, str):
        return set()
    found = named if isinstance(named, (set, frozenset, Mapping, list, tuple)) else ()
    return {item if isinstance(item, str) else item.topic for item in found}


def _first_line(error: BaseException) -> str:
    lines = str(error).splitlines()
    return lines[0][:200] if lines else "no details"
