"""Envelopes: the bytes of a plan, a certificate, and the signature of the certified key."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import orjson

from producer.signed.certificate import SIGNATURE_BYTES, Certificate, certificate_of
from producer.signed.text import canonical, from_base64, to_base64

VERSION = "signed-1"
TAG = b"calmstream/plan/1\0"
MAX_ENVELOPE_BYTES = 12 << 20
_FIELDS = {"v", "plan", "certificate", "signature"}

_COUNTS = {b"{": 2, b"}": 2, b":": 6, b",": 4, b'"': 22, b"[": 0, b"\\": 0}
"""How often a character stands in an envelope: base64 has none of them, and nothing is escaped."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """A plan with what proves its origin; nothing is verified yet.

    Attributes:
        plan: the bytes that were signed.
        certificate: of the key that signed.
        signature: 64 bytes.
    """

    plan: bytes
    certificate: Certificate
    signature: bytes

    @property
    def signed_bytes(self) -> bytes:
        """The message that the signing key signs."""
        return plan_message(self.certificate, self.plan)

    def to_bytes(self) -> bytes:
        """Return the envelope as JSON."""
        return canonical(
            {
                "v": VERSION,
                "plan": to_base64(self.plan),
                "certificate": self.certificate.to_json(),
                "signature": to_base64(self.signature),
            }
        )


def plan_message(certificate: Certificate, plan: bytes) -> bytes:
    """Return the message that the certified key signs for a plan."""
    statement = hashlib.sha256(certificate.statement).digest()
    return TAG + statement + hashlib.sha256(plan).digest()


def read_envelope(raw: bytes) -> Envelope:
    """Return the envelope in ``raw``; nothing is verified.

    Cost: O(bytes), and no more than 12 MiB are read. The numbers of characters are checked before
    the JSON is parsed, so that the parser makes six pairs at most, and none of them twice.

    Raises:
        ValueError: another form; one line.
    """
    if len(raw) > MAX_ENVELOPE_BYTES:
        raise ValueError(f"{len(raw):,} bytes; at most {MAX_ENVELOPE_BYTES:,} are read")
    if any(raw.count(character) != number for character, number in _COUNTS.items()):
        raise ValueError("not the form of an envelope")
    try:
        document = orjson.loads(raw)
    except orjson.JSONDecodeError:
        raise ValueError("not JSON") from None
    return _envelope(document)


def _envelope(document: Any) -> Envelope:
    if not isinstance(document, dict) or set(document) != _FIELDS:
        raise ValueError(f"expected the fields {', '.join(sorted(_FIELDS))}")
    texts = [document[name] for name in ("v", "plan", "signature")]
    if not all(type(text) is str for text in texts) or texts[0] != VERSION:
        raise ValueError(f"expected v {VERSION}, plan and signature as texts")
    signature = from_base64(texts[2])
    if len(signature) != SIGNATURE_BYTES:
        raise ValueError(f"signature: expected {SIGNATURE_BYTES} bytes")
    return Envelope(from_base64(texts[1]), certificate_of(document["certificate"]), signature)
