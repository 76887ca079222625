"""Dead letters: the record of a rejection, with the start of the rejected value.

The value is the first 4,096 bytes of the rejected value (empty where there was none); the key is
the rejected key, cut off likewise. Headers are UTF-8 text:

``v``             version of this format
``reason``        of the closed list
``detail``        one line
``topic``, ``partition``, ``offset``  where the record lies in the input
``first_offset``, ``records``  ``offset`` and 1; but records that cannot be decoded share one
                  rejection: there are ``records`` of them from ``first_offset`` to ``offset``
``timestamp``     its append time, milliseconds
``plan``          digest
``length``        bytes of the whole value
``sha256``        of the whole value, hexadecimal

Topic, partition and offset together are its origin: a resend of the same dead letter has the same
origin and counts once. Version 1.0 held the whole value and lacks the last fields.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass

from calmstream.common.errors import ForeignRecord, Reason

VERSION = "1.1"
Headers = tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Where a rejected record came from and why it was refused; fields as the headers above.

    ``sha256`` is empty, and ``length`` and ``records`` are 0, in a dead letter of version 1.0.
    """

    reason: Reason
    detail: str
    topic: str
    partition: int
    offset: int
    timestamp: int
    plan: str
    length: int
    sha256: str
    first_offset: int
    records: int

    def headers(self) -> Headers:
        """Return the fields as Kafka headers."""
        fields = {"v": VERSION, **asdict(self)}
        return tuple((name, str(content).encode()) for name, content in fields.items())

    @classmethod
    def from_headers(cls, headers: Headers) -> DeadLetter:
        """Read what :meth:`headers` wrote, in this version or 1.0.

        Raises:
            ForeignRecord: headers that calmstream did not write.
        """
        fields = {name: value.decode("utf-8", "replace") for name, value in headers}
        try:
            offset = int(fields["offset"])
            return cls(
                reason=Reason(fields["reason"]),
                detail=fields["detail"],
                topic=fields["topic"],
                partition=int(fields["partition"]),
                offset=offset,
                timestamp=int(fields["timestamp"]),
                plan=fields["plan"],
                length=int(fields.get("length", "0")),
                sha256=fields.get("sha256", ""),
                first_offset=int(fields.get("first_offset", offset)),
                records=int(fields.get("records", "0")),
            )
        except (KeyError, ValueError) as error:
            raise ForeignRecord(f"a dead letter without usable headers: {error}") from None


def content_hash(value: bytes | None) -> str:
    """Return SHA-256 of a record's value, hexadecimal; none counts as empty."""
    return hashlib.sha256(value or b"").hexdigest()
