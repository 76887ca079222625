"""Envelopes: a plan, a certificate, and a signature by the certified key, in one JSON document."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import orjson

from calmstream.producer.signed.certificate import (
    SIGNATURE_BYTES,
    Certificate,
    Statement,
    canonical,
    certificate_of,
    from_base64,
    read_statement,
    to_base64,
)
from calmstream.producer.signed.keys import sign, verifies
from calmstream.producer.signed.refusal import PlanRefused, Refusal

VERSION = "signed-1"
TAG = b"calmstream/plan/1\0"  # no signature is valid for a message of another kind
LINEAGE_TAG = b"calmstream/lineage/1"

MAX_ENVELOPE_BYTES = 12 << 20  # a plan of 8 MiB in base64 fits
_FIELDS = {"v", "plan", "certificate", "signature"}

_COUNTS = {b"{": 2, b"}": 2, b":": 6, b",": 4, b'"': 22, b"[": 0, b"\\": 0}
"""How often each character occurs in an envelope: two objects, with 6 names and 5 values. No value
contains one of them, because each is base64 or a version, and nothing is escaped."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """A plan with the proof of its origin; nothing is verified before `verify`."""

    plan: bytes
    certificate: Certificate
    signature: bytes

    @property
    def signed_bytes(self) -> bytes:
        # The statement is the content of the certificate, which the root key signed.
        statement = hashlib.sha256(self.certificate.statement).digest()
        return TAG + statement + hashlib.sha256(self.plan).digest()

    def to_bytes(self) -> bytes:
        return canonical(
            {
                "v": VERSION,
                "plan": to_base64(self.plan),
                "certificate": self.certificate.to_json(),
                "signature": to_base64(self.signature),
            }
        )


def certify(root: bytes, statement: Statement) -> Certificate:
    """Return the certificate of a statement, signed with a private root key in PEM."""
    unsigned = Certificate(statement.to_bytes(), b"")
    return replace(unsigned, signature=sign(root, unsigned.signed_bytes))


def seal(key: bytes, certificate: Certificate, plan: bytes) -> Envelope:
    """Return the envelope of a plan's canonical bytes, signed with a private key in PEM."""
    unsigned = Envelope(plan, certificate, b"")
    return replace(unsigned, signature=sign(key, unsigned.signed_bytes))


def is_envelope(raw: bytes) -> bool:
    try:
        read_envelope(raw)
    except ValueError:
        return False
    return True


def read_envelope(raw: bytes) -> Envelope:
    """Return the envelope in ``raw``; nothing is verified. Cost: O(bytes), at most 12 MiB.

    Characters are counted before parsing: no field can occur twice, and parsing is cheap.
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


def verify(envelope: Envelope, roots: Collection[str] | None) -> Statement:
    """Verify both signatures; without ``roots``, which are trusted, only that they fit together."""
    certificate = envelope.certificate
    try:
        statement = read_statement(certificate.statement)
    except ValueError as error:
        raise PlanRefused(Refusal.BAD_CERTIFICATE, f"statement: {error}") from None
    if roots is not None and statement.root not in roots:
        raise PlanRefused(Refusal.UNKNOWN_ROOT, f"the root {statement.root} is not trusted here")
    if not verifies(statement.root, certificate.signature, certificate.signed_bytes):
        raise PlanRefused(Refusal.BAD_CERTIFICATE, "the root did not sign this certificate")
    if not verifies(statement.key, envelope.signature, envelope.signed_bytes):
        raise PlanRefused(Refusal.BAD_SIGNATURE, "the certified key did not sign this plan")
    return statement


def signed_lineage(root: str, name: str) -> str:
    """Return the lineage of a root key and a plan's ``lineage_name``: 32 hexadecimal digits.

    16 bytes of the SHA-256 of tag, key and name, each behind its length (u32, big-endian).
    """
    fields = (LINEAGE_TAG, bytes.fromhex(root), name.encode())
    framed = b"".join(len(field).to_bytes(4, "big") + field for field in fields)
    return hashlib.sha256(framed).hexdigest()[:32]
