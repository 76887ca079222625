"""Envelopes: a plan, a certificate, and a signature by the certified key, in one JSON document.

``docs/signed-plans.md`` defines the format.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import orjson

from calmstream.producer.signed.certificate import SIGNATURE_BYTES, Certificate, certificate_of
from calmstream.producer.signed.text import canonical, from_base64, to_base64

VERSION = "signed-1"
TAG = b"calmstream/plan/1\0"
"""Beginning of the signed message, so that a plan's signature is never valid for a message of
another kind."""

MAX_ENVELOPE_BYTES = 12 << 20
"""Maximum size of an envelope: a plan of 8 MiB in base64, certificate and signature fit into it."""

_FIELDS = {"v", "plan", "certificate", "signature"}

_COUNTS = {b"{": 2, b"}": 2, b":": 6, b",": 4, b'"': 22, b"[": 0, b"\\": 0}
"""The exact number of times that each character occurs in an envelope. There are 2 objects: the
envelope with four fields and the certificate with two. They have 6 colons, 4 commas, and 11 texts
in quotes: 6 names and 5 values. The values contain none of these characters, because each is base64
or a version, and nothing is escaped."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """A plan with the proof of its origin; nothing is verified yet.

    Verify it with `verify` before the plan is used.

    Attributes:
        plan: the bytes of the plan.
        certificate: the certificate of the signing key.
        signature: the signing key's signature, 64 bytes.
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
    # The statement is the content of the certificate, which the root key signed.
    statement = hashlib.sha256(certificate.statement).digest()
    return TAG + statement + hashlib.sha256(plan).digest()


def read_envelope(raw: bytes) -> Envelope:
    """Return the envelope in ``raw``; nothing is verified.

    Cost: O(bytes), and at most 12 MiB are read. The numbers of characters are checked before the
    JSON is parsed. With these numbers, the document has at most six fields, those of the
    certificate included. So parsing it is cheap, and no field can occur twice.

    Raises:
        ValueError: the bytes have another form.
    """
    if len(raw) > MAX_ENVELOPE_BYTES:
        raise ValueError(f"{len(raw):,} bytes; at most {MAX_ENVELOPE_BYTES:,} are read")
    if any(raw.count(character) != number for character, number in _COUNTS.items()):
        raise ValueError("not a signed plan: wrong number of braces, quotes, colons or commas")
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
