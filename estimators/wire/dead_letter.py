"""Dead letters: a rejected record, raw, with everything about it in headers.

The value is the rejected value byte for byte (empty where there was none); the key is the rejected
key. Headers are UTF-8 text: ``reason`` (of the closed list), ``detail``, ``topic``, ``partition``,
``offset`` (where it lies in the input), ``timestamp`` (its append time, milliseconds), ``plan``
(digest), ``v``. Topic, partition and offset together are its origin: a resend of the same dead
letter has the same origin and counts once.
"""

from __future__ import annotations

from dataclasses import dataclass

from estimators.errors import FatalError, Reason

VERSION = "1.0"
Headers = tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Where a rejected record came from and why it was refused."""

    reason: Reason
    detail: str
    topic: str
    partition: int
    offset: int
    timestamp: int
    plan: str

    def headers(self) -> Headers:
        """As Kafka headers."""
        fields = {
            "v": VERSION,
            "reason": self.reason.value,
            "detail": self.detail,
            "topic": self.topic,
            "partition": str(self.partition),
            "offset": str(self.offset),
            "timestamp": str(self.timestamp),
            "plan": self.plan,
        }
        return tuple((name, text.encode()) for name, text in fields.items())

    @classmethod
    def from_headers(cls, headers: Headers) -> DeadLetter:
        """Inverse of :meth:`headers`.

        Raises:
            FatalError: headers that calmstream did not write.
        """
        fields = {name: value.decode("utf-8", "replace") for name, value in headers}
        try:
            return cls(
                Reason(fields["reason"]),
                fields["detail"],
                fields["topic"],
                int(fields["partition"]),
                int(fields["offset"]),
                int(fields["timestamp"]),
                fields["plan"],
            )
        except (KeyError, ValueError) as error:
            raise FatalError(f"a dead letter without usable headers: {error}") from None
