"""What left a device, for the person whose device it is. It stays on the device."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import orjson

MAX_SENT = 200
"""Reports that a history holds; the oldest go first. The ledger keeps what they cost."""

MAX_HISTORY_BYTES = 256 << 10
MAX_VALUE_BYTES = 4096
MAX_TEXT = 500
MAX_ATTRIBUTES = 64


@dataclass(frozen=True, slots=True)
class Sent:
    """One report that left.

    Attributes:
        plan: name of the plan.
        digest: of the plan, 64 hexadecimal digits.
        purpose: as the plan states it, its first 500 characters.
        owner: who answers for the plan: by the certificate, or by an unsigned plan's own words.
        root: root key of its certificate; empty for an unsigned one.
        attributes: names of those that the report is about.
        value: the perturbed report as it left, JSON; empty where it has more than 4,096 bytes.
        value_bytes: its length.
        value_sha256: its SHA-256, hexadecimal.
        epsilon: loss of the report, decimal string.
        when: second since the epoch, by the device's clock.
        remains: what the same operator could still spend within the span, decimal string.
        remains_ever: what it could still spend ever; None where there is no such limit.
    """

    plan: str
    digest: str
    purpose: str
    owner: str
    root: str
    attributes: tuple[str, ...]
    value: str
    value_bytes: int
    value_sha256: str
    epsilon: str
    when: int
    remains: str
    remains_ever: str | None

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object of a device's store."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Sent:
        """Return the entry of :meth:`to_json`.

        Raises:
            KeyError, TypeError: another form.
        """
        return cls(**{**document, "attributes": tuple(document["attributes"])})


def value_fields(raw: bytes) -> dict[str, Any]:
    """Return the fields of :class:`Sent` about the bytes that left."""
    short = len(raw) <= MAX_VALUE_BYTES
    return {
        "value": raw.decode() if short else "",
        "value_bytes": len(raw),
        "value_sha256": hashlib.sha256(raw).hexdigest(),
    }


def shortened(text: str) -> str:
    """Return at most 500 characters of a plan's text."""
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 1]}…"


def attribute_names(names: Iterable[str]) -> tuple[str, ...]:
    """Return at most 64 names, shortened; a last entry ``…`` says that there are more."""
    every = [shortened(name) for name in names]
    return tuple(every if len(every) <= MAX_ATTRIBUTES else [*every[: MAX_ATTRIBUTES - 1], "…"])


def appended(history: tuple[Sent, ...], sent: Sent) -> tuple[Sent, ...]:
    """Return the history with one more report, without the oldest where it becomes too large."""
    kept = [*history, sent][-MAX_SENT:]
    sizes = [len(orjson.dumps(each.to_json())) for each in kept]
    excess, first = sum(sizes) - MAX_HISTORY_BYTES, 0
    while excess > 0 and first < len(kept) - 1:
        excess -= sizes[first]
        first += 1
    return tuple(kept[first:])
