"""Check that the published examples for other languages are what this code gives."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from calmstream import Refusal, Status
from tests.support.examples import signed as signed_examples

FILE = Path(__file__).parents[4] / "docs" / "signed-examples.json"
EXAMPLES: dict[str, Any] = json.loads(FILE.read_text())


def test_the_file_is_what_its_maker_writes() -> None:
    assert signed_examples.document() == EXAMPLES


def test_they_reach_every_reason_but_that_of_an_unsigned_caller() -> None:
    refused = {case["refused"] for case in EXAMPLES["envelopes"]} - {None}
    assert refused == {reason.value for reason in Refusal}
    statuses = {step["status"] for case in EXAMPLES["ledgers"] for step in case["steps"]}
    assert statuses == {Status.READY, Status.SPAN_EPSILON, Status.EVER_EPSILON}


def test_of_two_faults_the_first_check_decides() -> None:
    found = {case["name"]: case["refused"] for case in EXAMPLES["envelopes"]}
    assert [found[name] for name in found if ", " in name and found[name]] == [
        "unknown_root",
        "bad_certificate",
        "bad_signature",
        "bad_signature",
        "unreadable_plan",
        "wrong_lineage",
        "expired_certificate",
        "purpose",
    ]


# Recomputed with nothing of the product's own code


@pytest.mark.parametrize("case", EXAMPLES["keys"], ids=lambda case: case["public"][:8])
def test_a_key(case: dict[str, str]) -> None:
    key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(case["private"]))
    assert key.public_key().public_bytes_raw().hex() == case["public"]


@pytest.mark.parametrize("case", EXAMPLES["lineages"], ids=lambda case: case["lineage"][:8])
def test_a_lineage(case: dict[str, str]) -> None:
    fields = (b"calmstream/lineage/1", bytes.fromhex(case["root"]), case["lineage_name"].encode())
    framed = b"".join(len(field).to_bytes(4, "big") + field for field in fields)
    assert hashlib.sha256(framed).digest()[:16].hex() == case["lineage"]


@pytest.mark.parametrize("case", EXAMPLES["ledgers"], ids=lambda case: case["name"])
def test_no_span_of_a_ledger_contains_more_than_the_policy_allows(case: dict[str, Any]) -> None:
    """In units of 10^-20, from the answers alone."""

    def units(text: str) -> int:
        whole, _, part = text.partition(".")
        return int(whole) * 10**20 + int(part.ljust(20, "0"))

    policy, mark, spent = case["policy"], 0, []
    for step in case["steps"]:
        if step["status"] == "ready":
            mark = max(mark, step["now"])
            spent.append((mark, units(step["epsilon"])))
    days = policy["span_days"] * 86_400
    for last, _ in spent:
        inside = sum(e for at, e in spent if last - days < at <= last)
        assert inside <= units(policy["span_epsilon"])
    if policy["ever_epsilon"] is not None:
        assert sum(e for _, e in spent) <= units(policy["ever_epsilon"])


def test_an_accepted_envelope_holds_the_plan_of_its_digest() -> None:
    for case in EXAMPLES["envelopes"]:
        if case["refused"] is None:
            body = json.loads(base64.b64decode(case["envelope"]))
            assert hashlib.sha256(base64.b64decode(body["plan"])).hexdigest() == case["digest"]
