"""Certificates: a root key states that a signing key may sign plans between two dates."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from dataclasses import asdict, dataclass
from typing import Any

import orjson

from calmstream.common.text import unseen

KEY = re.compile(r"[0-9a-f]{64}")  # a public key
VERSION = "certificate-1"
TAG = b"calmstream/certificate/1\0"  # no signature is valid for a message of another kind
MAX_STATEMENT_BYTES = 4096
MAX_OWNER = 128  # characters
MAX_TIME = 1 << 40  # seconds since the epoch; every language represents it exactly
SIGNATURE_BYTES = 64  # of Ed25519


def to_base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def from_base64(text: str) -> bytes:
    try:
        raw = base64.b64decode(text, validate=True)
    except binascii.Error:
        raise ValueError("not base64") from None
    if base64.b64encode(raw) != text.encode():
        raise ValueError("base64 in another spelling")
    return raw


def canonical(document: Any) -> bytes:
    """Return canonical JSON: with sorted keys and without spaces, so that it can be signed."""
    return orjson.dumps(document, option=orjson.OPT_SORT_KEYS)


@dataclass(frozen=True, slots=True)
class Statement:
    """The content of a certificate: who may sign with a key, from one second to another."""

    root: str
    key: str
    owner: str
    not_before: int
    not_after: int

    def __post_init__(self) -> None:
        for name in ("root", "key"):
            if not KEY.fullmatch(getattr(self, name)):
                raise ValueError(f"{name}: expected 64 lower-case hexadecimal digits")
        if not 1 <= len(self.owner) <= MAX_OWNER:
            raise ValueError(f"owner: expected 1 to {MAX_OWNER} characters")
        if why := unseen(self.owner):
            raise ValueError(f"owner: {why}")
        if not 0 <= self.not_before <= self.not_after <= MAX_TIME:
            raise ValueError("expected 0 <= not_before <= not_after <= 2^40")

    def to_bytes(self) -> bytes:
        return canonical(asdict(self) | {"v": VERSION})

    def valid_at(self, second: int) -> bool:
        return self.not_before <= second <= self.not_after


def read_statement(raw: bytes) -> Statement:
    if len(raw) > MAX_STATEMENT_BYTES:
        raise ValueError(f"{len(raw):,} bytes; at most {MAX_STATEMENT_BYTES:,} are read")
    try:
        document = orjson.loads(raw)
    except orjson.JSONDecodeError:
        raise ValueError("not JSON") from None
    kinds = {"v": str, "root": str, "key": str, "owner": str, "not_before": int, "not_after": int}
    if not isinstance(document, dict) or {n: type(v) for n, v in document.items()} != kinds:
        raise ValueError(f"expected the fields {', '.join(kinds)}")
    if document.pop("v") != VERSION:
        raise ValueError(f"v: expected {VERSION}")
    statement = Statement(**document)
    if statement.to_bytes() != raw:
        raise ValueError("not canonical JSON")
    return statement


@dataclass(frozen=True, slots=True)
class Certificate:
    """A statement with the root's signature, as in an envelope; not verified yet."""

    statement: bytes
    signature: bytes

    @property
    def signed_bytes(self) -> bytes:
        return TAG + hashlib.sha256(self.statement).digest()

    def to_json(self) -> dict[str, str]:
        return {"statement": to_base64(self.statement), "signature": to_base64(self.signature)}


def certificate_of(document: Any) -> Certificate:
    """Return the certificate from its JSON object; the signature is not verified."""
    if not isinstance(document, dict) or set(document) != {"statement", "signature"}:
        raise ValueError("certificate: expected the fields statement and signature")
    if not all(type(text) is str for text in document.values()):
        raise ValueError("certificate: expected base64 texts")
    statement, signature = (from_base64(document[name]) for name in ("statement", "signature"))
    if len(signature) != SIGNATURE_BYTES:
        raise ValueError(f"certificate.signature: expected {SIGNATURE_BYTES} bytes")
    return Certificate(statement, signature)
