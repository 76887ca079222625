"""Writes the records of the releases topic: claims, then levels, then the manifest of a release.

None of them says how many records there were: that number is private.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import orjson

from calmstream.estimators.central.accounting import BOUND
from calmstream.estimators.central.dp_marginals import Level, Release
from calmstream.estimators.central.ledger import Ledger
from calmstream.estimators.central.plan import CentralPlan
from calmstream.estimators.central.wire import VERSION

NONCE_BYTES = 16
MAX_LEVEL_BYTES = 7 << 20
_LEAST_TUPLE_BYTES = 6  # a tuple takes more in JSON: a label, its quotes, a count with commas


def claim_key(nonce: str) -> bytes:
    """Return a key of its own for every claim, so that compaction never drops one."""
    return f"claim/{nonce}".encode()


def encode_claim(plan: CentralPlan, window: int, nonce: str) -> bytes:
    return orjson.dumps({"v": VERSION, "plan": plan.digest, "claim": nonce, "window": window})


def encode_level(
    plan: CentralPlan,
    window: int,
    nonce: str,
    level: Level,
    released: Release,
    labels: Sequence[Sequence[bytes]],
) -> bytes:
    """One level; where it does not fit a record the tuples with the largest counts are kept."""
    extracted = [
        [labels[i][code].decode() for code in values.tolist()]
        for i, values in enumerate(released.values)
    ]
    kept = _cut(level)
    while True:
        body = _level_body(plan, window, level, extracted, kept) | {"claim": nonce}
        dropped = kept if kept > level.threshold else None
        raw = orjson.dumps(body | {"dropped_up_to": dropped})
        if len(raw) <= MAX_LEVEL_BYTES:
            return raw
        counts = np.concatenate([c[c > kept] for c in level.counts.values()])
        kept = int(np.median(counts))


def _cut(level: Level) -> int:
    """Return a count, not below the threshold, up to which tuples cannot fit a record."""
    room = MAX_LEVEL_BYTES // _LEAST_TUPLE_BYTES
    counts = np.concatenate([np.empty(0, np.int64), *level.counts.values()])
    if len(counts) <= room:
        return level.threshold
    return int(np.partition(counts, -room)[-room])


def _level_body(
    plan: CentralPlan, window: int, level: Level, extracted: list[list[str]], above: int
) -> dict[str, Any]:
    tables = []
    for columns, cells in level.cells.items():
        counts = level.counts[columns]
        chosen = counts > above
        if not chosen.any():
            continue
        places = np.unravel_index(cells[chosen], [len(extracted[i]) for i in columns])
        tables.append(
            {
                "attributes": [plan.columns[i] for i in columns],
                "values": [
                    [extracted[i][v] for v in place.tolist()]
                    for i, place in zip(columns, places, strict=True)
                ],
                "counts": counts[chosen].tolist(),
            }
        )
    return {
        "v": VERSION,
        "plan": plan.digest,
        "window": window,
        "k": level.k,
        "limit": level.limit,
        "stderr": float(level.variance) ** 0.5,
        "threshold": level.threshold,
        "candidates": level.candidates,
        "spurious_bound": level.spurious_bound,
        "extended_above": level.extended_above,
        "tables": tables,
    }


def encode_manifest(
    plan: CentralPlan, window: int, nonce: str, released: Release, ledger: Ledger, software: str
) -> bytes:
    return orjson.dumps(
        {
            "v": VERSION,
            "plan": plan.digest,
            "name": plan.name,
            "method": "dp-marginals",
            "window": window,
            "claim": nonce,
            "start": plan.start + window * plan.window,
            "end": plan.start + (window + 1) * plan.window,
            "levels": [level.k for level in released.levels],
            "epsilon": plan.epsilon,
            "delta": plan.delta,
            "releases": plan.releases,
            "sample": plan.sample,
            "bound": BOUND,
            "rho": float(plan.method.spend.rho),
            "spent": ledger.summary(),
            "software": software,
        }
    )
