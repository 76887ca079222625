"""The operator's side of signed plans: makes certificates and envelopes."""

from __future__ import annotations

from dataclasses import replace

from calmstream.producer.signed.certificate import Certificate, Statement
from calmstream.producer.signed.envelope import Envelope
from calmstream.producer.signed.keys import sign


def certify(root: bytes, statement: Statement) -> Certificate:
    """Return the certificate of a statement, signed with a private root key in PEM."""
    unsigned = Certificate(statement.to_bytes(), b"")
    return replace(unsigned, signature=sign(root, unsigned.signed_bytes))


def seal(key: bytes, certificate: Certificate, plan: bytes) -> Envelope:
    """Return the envelope of a plan's canonical bytes, signed with a private key in PEM."""
    unsigned = Envelope(plan, certificate, b"")
    return replace(unsigned, signature=sign(key, unsigned.signed_bytes))
