"""Operators with fixed keys, and plans that they have signed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from calmstream.estimators.plan import Plan
from calmstream.producer.signed.certificate import Certificate, Statement
from calmstream.producer.signed.envelope import Envelope, certify, seal, signed_lineage
from calmstream.producer.signed.keys import public_key
from tests.support.producer import START, make_plan

YEAR = 365 * 86_400


def private_key(seed: int) -> bytes:
    """Return the same key for the same seed."""
    key = Ed25519PrivateKey.from_private_bytes(seed.to_bytes(32, "big"))
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


@dataclass(frozen=True)
class Operator:
    """Root and signing key, by their seeds."""

    root_seed: int = 1
    key_seed: int = 2
    owner: str = "Example Ltd"
    not_before: int = START - YEAR
    not_after: int = START + YEAR

    @property
    def root(self) -> str:
        return public_key(private_key(self.root_seed))

    @property
    def statement(self) -> Statement:
        key = public_key(private_key(self.key_seed))
        return Statement(self.root, key, self.owner, self.not_before, self.not_after)

    @property
    def certificate(self) -> Certificate:
        return certify(private_key(self.root_seed), self.statement)

    def plan(self, lineage_name: str = "a", **given: Any) -> Plan:
        """Return a plan of this operator with the arguments of ``make_plan``."""
        given["continues"] = tuple(given.get("continues", ()))
        lineage = signed_lineage(self.root, lineage_name)
        return make_plan(lineage=lineage, lineage_name=lineage_name, **given)

    def envelope(self, plan: Plan | bytes) -> Envelope:
        raw = plan if isinstance(plan, bytes) else plan.to_bytes()
        return seal(private_key(self.key_seed), self.certificate, raw)

    def sign(self, plan: Plan | bytes) -> bytes:
        return self.envelope(plan).to_bytes()
