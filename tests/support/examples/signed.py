"""Makes ``docs/signed-examples.json``.

    python -m tests.support.examples.signed > docs/signed-examples.json

The expected values of the file are the contract with devices in other languages: once published
they may only be added to. A test recomputes them.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from calmstream.common.text import unseen
from calmstream.producer.device.policy import DAY, Allotment, Policy, Status, standing
from calmstream.producer.device.read_plan import read_signed_plan
from calmstream.producer.device.totals import DeviceTotals
from calmstream.producer.signed.envelope import certify, seal
from calmstream.producer.signed.refusal import PlanRefused
from tests.support.producer import START, WINDOW
from tests.support.signed import Operator, private_key

A, B = Operator(), Operator(root_seed=7, key_seed=8, owner="Jemand Å GmbH")
PLAN = A.plan()
POLICY = Policy(roots=(A.root,))


def document() -> dict[str, Any]:
    return {
        "keys": [key(seed) for seed in (A.root_seed, A.key_seed, B.root_seed, B.key_seed)],
        "lineages": [
            {"root": operator.root, "lineage_name": name, "lineage": operator.plan(name).lineage}
            for operator, name in ((A, "a"), (A, "b"), (B, "a"), (A, "häufig 𝄞"))
        ],
        "envelopes": [envelope(name, raw, policy, now) for name, raw, policy, now in envelopes()],
        "texts": [
            {"points": " ".join(f"{ord(each):x}" for each in text), "seen": unseen(text) is None}
            for text in TEXTS
        ],
        "ledgers": [ledger(name, policy, steps) for name, (policy, steps) in LEDGERS.items()],
    }


TEXTS = (
    "", "Example Ltd", "Jemand Å GmbH", "¡Olé!", "e\u0301", "日本\u3000語", "𝄞",
    # Joiners and variation selectors where a script needs them, and elsewhere.
    "می\u200cخواهیم", "क\u094d\u200dष", "👩\u200d💻", "❤\ufe0f", "葛\U000e0100",
    "pay\u200dpal", "\u200cا", "ا\u200c\u200dب", "а\u200cб", "1\ufe0f", "é\U000e0100",
    # Emoji that look the same without.
    "❤\ufe0f\u200d🔥", "1\ufe0f\u20e3", "©\ufe0f",
    # Control characters, blanks that are no U+0020, directions, fillers, tags, private use.
    "a\nb", "\x00", "a\x1b[2J", "a\x7f", "a\x85", "a\xa0b", "a\xadb", "a\u034fb", "a\u061c",
    "\u115f", "a\u180eb", "a\u2003b", "a\u200bb", "a\u200e", "a\u2028b", "a\u202eb", "a\u202fb",
    "a\u2060b", "a\u2066b\u2069", "\u2800", "\u3164", "\ue000", "\uf8ff", "\ufeffa", "\uffa0",
    "a\ufff9", "\uffff", "\U00013440", "\U0001bca0", "\U0001d173", "🏴\U000e0067\U000e007f",
    "\U000e01f0", "\U0010fffd",
    # Their neighbours.
    "~", "¡", "\u034e", "\u0350", "\u1161", "\u17b3", "\u2010", "\u2027", "\u2070", "\u27ff",
    "\u2801", "\u3165", "\uf900", "\ufdff", "\uff9f", "\ufffc", "\ufffd",
    "\U0001342f", "\U00013460",
)  # fmt: skip
"""Texts by which people could judge, or not."""


def key(seed: int) -> dict[str, str]:
    public = replace(A, root_seed=seed).root
    return {"private": seed.to_bytes(32, "big").hex(), "public": public}


def envelopes() -> list[tuple[str, bytes, Policy, int]]:
    good = A.sign(PLAN)
    lie = certify(private_key(B.root_seed), A.statement)
    cases: list[tuple[str, bytes]] = [
        ("accepted", good),
        ("accepted, continues", A.sign(A.plan("b", continues=[PLAN.lineage]))),
        ("a plan without envelope", PLAN.to_bytes()),
        ("nothing", b""),
        ("the end is missing", good[:-1]),
        ("another version", good.replace(b"signed-1", b"signed-2")),
        ("a field twice", good.replace(b'{"certificate"', b'{"v":"signed-1","certificate"')),
        ("an escape", good.replace(b'"v"', b'"\\u0076"')),
        ("base64 in another spelling", respelled(good)),
        ("another root", B.sign(B.plan())),
        (
            "a certificate that another root signed",
            seal(private_key(A.key_seed), lie, PLAN.to_bytes()).to_bytes(),
        ),
        (
            "a signature of another key",
            seal(private_key(B.key_seed), A.certificate, PLAN.to_bytes()).to_bytes(),
        ),
        (
            "the certificate of other dates",
            replace(A.envelope(PLAN), certificate=replace(A, not_before=0).certificate).to_bytes(),
        ),
        ("no plan", A.sign(b"{}")),
        ("a plan without lineage_name", A.sign(replace(PLAN, lineage_name=""))),
        ("the lineage of another root", A.sign(B.plan())),
        ("a start after the certificate", A.sign(A.plan(start=A.not_after + 1))),
        ("more than the policy allows", A.sign(A.plan(epsilon="4.00000000000000000001"))),
    ]
    purposes = Policy(roots=(A.root,), purposes=("crash rates",))
    late = A.plan(start=A.not_after + 1, epsilon="5")
    # Two faults at once: the check that comes first decides.
    both = [
        ("unknown root, bad certificate", flipped(B.sign(B.plan()), "certificate"), POLICY),
        ("bad certificate, bad signature", flipped(flipped(good, "certificate")), POLICY),
        ("bad signature, no plan", flipped(A.sign(b"{}")), POLICY),
        ("bad signature, wrong lineage", flipped(A.sign(B.plan())), POLICY),
        ("no lineage_name, too much", A.sign(replace(late, lineage_name="")), POLICY),
        ("wrong lineage, expired", A.sign(replace(late, lineage_name="b")), POLICY),
        ("expired, another purpose, too much", A.sign(late), purposes),
        ("another purpose, too much", A.sign(A.plan(epsilon="5")), purposes),
    ]
    return [
        *((name, raw, POLICY, START) for name, raw in cases),
        ("the last second of the certificate", good, POLICY, A.not_after),
        ("after the certificate", good, POLICY, A.not_after + 1),
        ("before the certificate", good, POLICY, A.not_before - 1),
        ("another purpose", good, purposes, START),
        ("no root is trusted", good, Policy(), START),
        *((name, raw, policy, START) for name, raw, policy in both),
    ]


def flipped(raw: bytes, *path: str) -> bytes:
    """Return the envelope with another first character in the signature at the path."""
    body = json.loads(raw)
    place = body
    for name in path:
        place = place[name]
    text = place["signature"]
    place["signature"] = ("B" if text[0] == "A" else "A") + text[1:]
    return json.dumps(body).encode()


def respelled(raw: bytes) -> bytes:
    """Return the envelope with an unused bit set in the last digit of the last signature."""
    at = raw.index(b'=="', raw.index(b'"signature"')) - 1
    digits = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    other = digits[digits.index(raw[at : at + 1]) ^ 1]
    return raw[:at] + bytes([other]) + raw[at + 1 :]


def envelope(name: str, raw: bytes, policy: Policy, now: int) -> dict[str, Any]:
    case = {
        "name": name,
        "envelope": base64.b64encode(raw).decode(),
        "policy": policy.to_json(),
        "now": now,
    }
    try:
        accepted = read_signed_plan(raw, policy.roots)
        refused = standing(accepted, policy, now)
    except PlanRefused as error:
        refused = error
    if refused is not None:
        return case | {"refused": refused.reason.value}
    return case | {"refused": None, "digest": accepted.plan.digest, "owner": accepted.owner}


Step = tuple[int, int, str, str]
"""Clock, end of the window, epsilon, root."""


def day(now: int, epsilon: str, root: str = A.root, ahead: int = WINDOW) -> Step:
    return START + now * DAY, START + now * DAY + ahead, epsilon, root


BOTH = (A.root, B.root)
LEDGERS: Mapping[str, tuple[Policy, Sequence[Step]]] = {
    "eight a year": (POLICY, [day(n, "1") for n in range(10)] + [day(365, "1"), day(366, "1")]),
    "exact sums": (
        Policy(roots=BOTH, span_epsilon="0.3"),
        [day(0, "0.1"), day(0, "0.2"), day(0, "0.001"), day(366, "0.29999999999999999999"),
         day(366, "0.001")],
    ),
    "a clock that goes back": (
        Policy(roots=BOTH, span_days=10),
        [day(100, "4"), day(0, "4"), day(0, "1"), day(109, "1"), day(111, "4"), day(50, "4"),
         day(50, "1")],
    ),
    "a window that ends far ahead": (
        Policy(roots=BOTH, span_days=10),
        [day(0, "4", ahead=100 * DAY), day(0, "4"), day(50, "4"), day(50, "1"), day(111, "4")],
    ),
    "the end of the span": (
        Policy(roots=BOTH, span_days=1),
        [(0, 100, "8", A.root), (86_499, 86_499, "1", A.root), (86_500, 86_500, "1", A.root)],
    ),
    "ever": (
        Policy(roots=BOTH, span_days=1, ever_epsilon="9.5"),
        [day(2 * n, "4") for n in range(3)] + [day(9, "1.5"), day(12, "0.001")],
    ),
    "allotments": (
        Policy(roots=BOTH, allotments={A.root: Allotment("3")}),
        [day(0, "3", B.root), day(0, "2", ""), day(0, "1", B.root), day(0, "2"), day(0, "2"),
         day(0, "1"), day(0, "0.001", "")],
    ),
    "allotments of ever": (
        Policy(roots=BOTH, span_days=1, ever_epsilon="5",
               allotments={A.root: Allotment("3", "2")}),
        [day(0, "2"), day(3, "1"), day(3, "2", B.root), day(6, "1", B.root), day(9, "1", "")],
    ),
}  # fmt: skip


def ledger(name: str, policy: Policy, steps: Sequence[Step]) -> dict[str, Any]:
    totals, found = DeviceTotals(), []
    for now, ends, epsilon, root in steps:
        status = totals.status(policy, root, epsilon, now)
        if status is Status.READY:
            totals = totals.add(ends, epsilon, root, now, policy)
        found.append(
            {"now": now, "ends": ends, "epsilon": epsilon, "root": root, "status": status.value}
        )
    return {"name": name, "policy": policy.to_json(), "steps": found}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(document(), indent=1, ensure_ascii=False) + "\n")
