"""Make ``docs/wire-examples.json``.

    python -m tests.support.examples.wire > docs/wire-examples.json

The expected values of the file are the contract with edges in other languages: once published they
may only be added to. The edge in TypeScript answers them with code of its own.
"""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from calmstream.common.errors import Rejection
from calmstream.estimators.hashed import Hashed
from calmstream.estimators.mechanisms.hashing import buckets
from calmstream.estimators.plan import Plan
from calmstream.estimators.plan.document import read_plan
from calmstream.estimators.randomness import SeededRandomness, exp_weight
from calmstream.estimators.wire.batch import Batch, decode_batch, encode_batch
from calmstream.estimators.wire.report import decode_report, encode_report
from calmstream.producer.device.assignment import GROUP, SLOT, parts, place
from tests.support.typescript.cases import SPECS, cases, plans

ROOT = Path(__file__).resolve().parents[3]
SECRETS = ("00" * 16, "000102030405060708090a0b0c0d0e0f", "ff" * 16, "5a" * 16)
KEY = bytes(range(16))
TEXTS: list[tuple[int, int, Any]] = [
    *((j, 64, "null pointer") for j in (0, 7, 8, 63)),
    *(
        (0, 4096, text)
        for text in ("gr\u00f6\u00dfe", "gro\u0308\u00dfe", "\U0001f600", "x" * 1024)
    ),
    *((3, 10, none) for none in ("", 7, None, "\ud800", "x" * 1025, "\u00e9" * 513)),
]
"""Hash, number of buckets, text; the last ones have no bucket."""


def document() -> dict[str, Any]:
    plan = read_plan((ROOT / "deploy" / "plans" / "devices.plan.json").read_bytes())
    return {
        "plan": {"file": "deploy/plans/devices.plan.json", "digest": plan.digest},
        "weights": {text: exp_weight(text) for text in ("0.1", "0.5", "1", "2", "10")},
        "assignments": [assignment(plan, secret) for secret in SECRETS],
        "hashes": [
            {"seed": seed, "cell": cell, "count": count, "bucket": bucket(seed, cell, count)}
            for seed, cell, count in ((0, 0, 4), (1, 5, 4), (0xDEADBEEF, 77, 4), (42, 1000, 1000))
        ],
        "texts": texts(),
        "accepted": [accepted(plan, group) for group in (groups_of(plan)["grr"], 2)],
        "rejected": rejected(plan),
        "reports": reports(),
        "batches": batches(),
    }


def texts() -> list[dict[str, Any]]:
    return [
        {"lineage": KEY.hex(), "name": "crash", "hash": j, "buckets": buckets, "text": text}
        | {"bucket": Hashed("crash", j, 64, buckets, KEY.hex()).code(text)}
        for j, buckets, text in TEXTS
    ]


def groups_of(plan: Plan) -> dict[str, int]:
    names = [mechanism.name for mechanism in plan.mechanisms]
    return {name: names.index(name) for name in sorted(set(names))}


def assignment(plan: Plan, secret: str) -> dict[str, Any]:
    raw = bytes.fromhex(secret)
    where = place(plan, raw)
    return {
        "secret": secret,
        "group_word": f"{parts((raw,), plan.lineage, GROUP, 1 << 64)[0]:016x}",
        "slot_word": f"{parts((raw,), plan.lineage, SLOT, 1 << 64)[0]:016x}",
        "group": where.group,
        "view": where.view,
        "slot": where.slot,
    }


def bucket(seed: int, cell: int, count: int) -> int:
    return int(buckets(np.array([seed]), np.array([cell]), count)[0])


def accepted(plan: Plan, group: int) -> dict[str, Any]:
    """Return a report of the largest cell or, of bits, with those of cells 0 and 9."""
    mechanism = plan.mechanisms[group]
    (column,) = mechanism.columns
    if column.kind == "int":
        values, means = np.array([column.bound - 1]), [column.bound - 1]
    else:
        values, means = np.zeros((1, -(-column.bound // 8)), np.uint8), [0, 9]
        values[0, :2] = 1, 2
    body = encode_report(plan, group, Batch(17, 1, None, {column.name: values}))
    return {
        "mechanism": mechanism.name,
        "cells": mechanism.cells,
        "body": json.loads(body),
        "means": means,
    }


def rejected(plan: Plan) -> list[dict[str, Any]]:
    good = accepted(plan, groups_of(plan)["grr"])
    body, bits = good["body"], accepted(plan, 2)["body"]
    too_far = base64.b64encode(b"\xff" * len(base64.b64decode(bits["columns"]["b"]))).decode()
    bodies: list[dict[str, Any]] = [
        body | {"v": "2.0"},
        body | {"plan": "0" * 64},
        body | {"group": len(plan.groups)},
        body | {"n": 4},
        body | {"n": 1.0},
        body | {"period": plan.windows},
        body | {"columns": {}},
        body | {"columns": {"v": [good["cells"]]}},
        body | {"columns": {"v": [-1]}},
        body | {"columns": {"v": [0, 0]}},
        body | {"view": [0]},
        bits | {"columns": {"b": bits["columns"]["b"] + "AAAA"}},
    ]
    if plan.mechanisms[2].cells % 8:
        bodies.append(bits | {"columns": {"b": too_far}})
    examples = []
    for each in bodies:
        try:
            decode_report(plan, json.dumps(each).encode())
        except Rejection as rejection:
            examples.append({"body": each, "reason": rejection.reason.value})
    assert len(examples) == len(bodies)
    return examples


BATCHES = (("grr", 2), ("grr", 12), ("oue", 4), ("olh", 4), ("hadamard-coefficient", 6))
"""Mechanism and number of the plans of the batches: columns of 1, 2 and 4 bytes, bits, two columns,
two views."""


def batches() -> dict[str, Any]:
    """Batches of three reports with what they hold, and bytes that are rejected."""
    listed = [plans(name)[number] for name, number in BATCHES]
    found = []
    for number, plan in enumerate(listed):
        mechanism, views = plan.mechanisms[0], len(plan.groups[0].views)
        columns = mechanism.perturb(np.arange(3) % mechanism.cells, SeededRandomness(number))
        view = np.array([0, 1, 1]) if views > 1 else None
        batch = Batch(17, 3, view, columns)
        raw = encode_batch(plan, 0, batch)
        holds: dict[str, Any] = {"group": 0, "period": 17, "n": 3}
        holds |= {} if view is None else {"view": view.tolist()}
        holds["columns"] = {name: values.tolist() for name, values in columns.items()}
        found.append({"plan": number, "key": KEY.hex(), "value": raw.hex(), "holds": holds})
    plan, good = listed[1], bytes.fromhex(found[1]["value"])
    return {
        "plans": [plan.to_bytes().decode() for plan in listed],
        "cases": found,
        "rejected": [_refused(plan, 1, raw) for raw in _broken(good)],
    }


def _broken(good: bytes) -> list[bytes]:
    """Change a valid batch of grr over 1,000 cells: version, digest, group, n, length, a value."""
    return [
        b"\x02" + good[1:],
        b"\x01\x02" + good[2:],
        good[:2] + b"\xff" * 8 + good[10:],
        good[:10] + b"\x01" + good[11:],
        good[:16] + b"\x00\x00" + good[18:],
        good[:16] + b"\x04\x00" + good[18:],
        good + b"\x00",
        good[:-1],
        good[:12],
        good[:-2] + b"\xe8\x03",
    ]


def _refused(plan: Plan, number: int, raw: bytes) -> dict[str, Any]:
    try:
        decode_batch(plan, 0, KEY, raw)
    except Rejection as rejection:
        return {"plan": number, "value": raw.hex(), "reason": rejection.reason.value}
    raise AssertionError(raw.hex())


def reports(per_mechanism: int = 8) -> dict[str, Any]:
    """Reports from given random bytes: plans as their canonical text, all bytes in hexadecimal."""
    listed: list[str] = []
    found = []
    for seed, name in enumerate(SPECS):
        first = len(listed)
        listed += [plan.to_bytes().decode() for plan in plans(name)]
        found += [
            {"mechanism": name, **case, "plan": first + case["plan"], "report": report.hex()}
            for case, report in cases(name, per_mechanism, seed)
        ]
    used = sorted({case["plan"] for case in found})
    for case in found:
        case["plan"] = used.index(case["plan"])
    return {"plans": [listed[number] for number in used], "cases": found}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(document(), indent=1) + "\n")
