"""Verifies that the plan in an envelope comes from an operator whose root key is trusted."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from calmstream.producer.signed.certificate import Statement, read_statement
from calmstream.producer.signed.envelope import Envelope
from calmstream.producer.signed.keys import verifies
from calmstream.producer.signed.refusal import PlanRefused, Refusal


@dataclass(frozen=True, slots=True)
class Verified:
    """The content of an envelope after both signatures were verified.

    Attributes:
        plan: the bytes of the plan; not read yet.
        statement: the statement of the certificate.
    """

    plan: bytes
    statement: Statement


def verify(envelope: Envelope, roots: Collection[str] | None) -> Verified:
    """Verify both signatures of an envelope.

    The dates and the plan are checked elsewhere: `device.acceptance`.

    Args:
        envelope: the envelope, not verified yet.
        roots: trusted public root keys. None trusts the envelope's own root; the result then proves
            only that the signatures fit together.

    Raises:
        PlanRefused: the reason is ``BAD_CERTIFICATE``, ``UNKNOWN_ROOT`` or ``BAD_SIGNATURE``.
        FatalError: the library for signatures is not installed.
    """
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
    return Verified(envelope.plan, statement)
