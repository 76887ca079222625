"""The examples of reports follow from the pages, by code that shares nothing with the product."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import unicodedata
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from calmstream.estimators.mechanisms.registry import names
from tests.support.examples import wire as wire_examples
from tests.support.perturbing import Stream, bucket, perturb, uniform, weight

ROOT = Path(__file__).parents[3]
FILE = ROOT / "docs" / "wire-examples.json"
EXAMPLES: dict[str, Any] = json.loads(FILE.read_text())
REPORTS: dict[str, Any] = EXAMPLES["reports"]


def word(secret: bytes, lineage: str, purpose: str) -> int:
    message = f"calmstream/1/{purpose}/".encode() + bytes.fromhex(lineage)
    return int.from_bytes(hmac.digest(secret, message, "sha256")[:8], "big")


def view_of(plan: dict[str, Any], secret: bytes) -> tuple[int, int]:
    listed = [
        (g, v, view["share"])
        for g, group in enumerate(plan["groups"])
        for v, view in enumerate(group["views"])
    ]
    left = word(secret, plan["lineage"], "group") * sum(share for *_, share in listed) >> 64
    for g, v, share in listed:
        if left < share:
            return g, v
        left -= share
    raise AssertionError


def code(attribute: dict[str, Any], label: Any, stream: Stream) -> int:
    labels = attribute["labels"]
    text = str(label) if type(label) in (str, int) else None
    if text in labels:
        return int(labels.index(text))
    if "other" in attribute:
        return int(labels.index(attribute["other"]))
    return uniform(len(labels), stream)


def input_of(plan: dict[str, Any], view: dict[str, Any], codes: list[int]) -> int:
    sizes = [len(plan["domain"][j]["labels"]) for j in view["attributes"]]
    if "parity" in view:
        masked = (code & mask for code, mask in zip(codes, view["parity"], strict=True))
        return sum(each.bit_count() for each in masked) % 2
    if "character" in view:
        m = view["modulus"]
        terms = zip(view["character"], codes, sizes, strict=True)
        return sum(a * x * (m // r) for a, x, r in terms) % m
    x = 0
    for each, size in zip(codes, sizes, strict=True):
        x = x * size + each
    return x


def column(value: Any) -> Any:
    """As it stands in a report: a list of one integer, or base64 of the bits, lowest first."""
    if isinstance(value, int):
        return [value]
    packed = bytearray(-(-len(value) // 8))
    for i, bit in enumerate(value):
        packed[i // 8] |= bit << i % 8
    return base64.b64encode(packed).decode()


def report(raw: str, case: dict[str, Any]) -> tuple[bytes, int]:
    """The report as it leaves, and how many random bytes were read."""
    plan = json.loads(raw)
    g, v = view_of(plan, bytes.fromhex(case["secret"]))
    group, stream = plan["groups"][g], Stream(bytes.fromhex(case["random"]))
    view = group["views"][v]
    named = [plan["domain"][j] for j in view["attributes"]]
    codes = [code(each, case["record"].get(each["name"]), stream) for each in named]
    x = input_of(plan, view, codes)
    values = perturb(group["mechanism"], plan["epsilon"], x, stream)
    body = {
        "v": "1.0",
        "plan": hashlib.sha256(raw.encode()).hexdigest(),
        "group": g,
        "period": (case["now"] // 1000 - plan["start"]) // plan["window"],
        "n": 1,
        "columns": {name: column(value) for name, value in values.items()},
    }
    if len(group["views"]) > 1:
        body["view"] = [v]
    return json.dumps(body, separators=(",", ":")).encode(), stream.read


@pytest.mark.parametrize("case", EXAMPLES["assignments"], ids=lambda case: case["secret"][:8])
def test_an_assignment(case: dict[str, Any]) -> None:
    plan = json.loads((ROOT / EXAMPLES["plan"]["file"]).read_text())
    secret, slot = bytes.fromhex(case["secret"]), int(case["slot_word"], 16)
    assert f"{word(secret, plan['lineage'], 'group'):016x}" == case["group_word"]
    assert word(secret, plan["lineage"], "slot") == slot
    assert view_of(plan, secret) == (case["group"], case["view"])
    assert slot * plan["guarantee"]["windows"] >> 64 == case["slot"]


def test_weights_and_hashes() -> None:
    for epsilon, weighed in EXAMPLES["weights"].items():
        assert weight(epsilon) == weighed
    for case in EXAMPLES["hashes"]:
        assert bucket(case["seed"], case["cell"], case["count"]) == case["bucket"]


def test_buckets_of_texts() -> None:
    for case in EXAMPLES["texts"]:
        text, block = case["text"], case["hash"] // 8
        found = None
        if isinstance(text, str) and 0 < len(text.encode("utf-8", "surrogatepass")) <= 1024:
            message = f"{case['name']}#{block}\0{unicodedata.normalize('NFC', text)}"
            if not any("\ud800" <= letter <= "\udfff" for letter in text):
                start = b"calmstream/1/hashed/" + bytes.fromhex(case["lineage"])
                digest = hashlib.sha256(start + message.encode()).digest()
                own = digest[4 * (case["hash"] % 8) :][:4]
                found = int.from_bytes(own, "big") * case["buckets"] >> 32
        assert case["bucket"] == found, case


@pytest.mark.parametrize("number", range(len(REPORTS["cases"])))
def test_a_report(number: int) -> None:
    case = REPORTS["cases"][number]
    made, read = report(REPORTS["plans"][case["plan"]], case)
    assert made.hex() == case["report"]
    assert read == len(case["random"]) // 2


def test_the_product_makes_the_same_examples() -> None:
    assert wire_examples.document() == EXAMPLES


def test_every_mechanism_has_examples() -> None:
    counted = Counter(case["mechanism"] for case in REPORTS["cases"])
    assert set(counted) == set(names())
    assert min(counted.values()) >= 4
