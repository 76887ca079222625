"""Dead letters: the record of a rejection, with the start of the rejected value and key.

Headers are UTF-8 text (docs/wire-formats.md). Topic, partition and offset are the origin: a resend
has the same one and counts once.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import asdict, dataclass
from typing import Any

from calmstream.common.errors import ForeignRecord, Reason
from calmstream.estimators.plan import Plan
from calmstream.estimators.wire import fields

VERSION = "1.1"
Headers = tuple[tuple[str, bytes], ...]
_INTEGERS = ("partition", "offset", "timestamp", "length", "first_offset", "records")
_TEXTS = ("reason", "detail", "topic", "plan", "sha256")
_NUMBER = re.compile(r"\d{1,19}", re.ASCII)
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Where a rejected record came from and why it was refused.

    Records that cannot be decoded share one: ``records`` of them, ``first_offset`` to ``offset``.
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
        contents = {"v": VERSION, **asdict(self)}
        return tuple((name, str(content).encode()) for name, content in contents.items())

    @classmethod
    def from_headers(cls, headers: Headers, plan: Plan) -> DeadLetter:
        found = {name: value.decode("utf-8", "replace") for name, value in headers}
        if found.get("plan") != plan.digest:
            raise ForeignRecord("a dead letter of another plan")
        if found.get("v") != VERSION:
            raise ForeignRecord("a dead letter of an unknown version")
        body: dict[str, Any] = {name: found.get(name) for name in _TEXTS}
        for name in _INTEGERS:
            body[name] = int(found[name]) if _NUMBER.fullmatch(found.get(name, "")) else None
        offset = fields.offset_of(plan)
        fields.check_fields(
            body,
            "a dead letter",
            {
                "reason": fields.one_of(Reason),
                "detail": fields.text,
                "topic": fields.text,
                "partition": fields.integer(0, plan.partitions - 1),
                "offset": offset,
                "timestamp": fields.milliseconds,
                "length": fields.count,
                "sha256": lambda value: bool(_SHA256.fullmatch(value or "")),
                "first_offset": lambda value: offset(value) and value <= body["offset"],
                "records": fields.count,
            },
        )
        return cls(**body | {"reason": Reason(found["reason"])})


def content_hash(value: bytes | None) -> str:
    """Return SHA-256 of a record's value, hexadecimal; none counts as empty."""
    return hashlib.sha256(value or b"").hexdigest()
