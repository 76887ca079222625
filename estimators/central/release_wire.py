"""Writes claims, levels and manifests; none says how many records there were, which is private."""

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
    return orjson.dumps(_head(plan, window, nonce))


def released_texts(released: Release, labels: Sequence[Sequence[bytes]]) -> list[list[str]]:
    """Return by column the released values, of all its labels."""
    columns = zip(labels, released.values, strict=True)
    return [[own[code].decode() for code in codes.tolist()] for own, codes in columns]


def encode_level(
    plan: CentralPlan, window: int, nonce: str, level: Level, texts: list[list[str]]
) -> bytes:
    """One level; where it does not fit a record the tuples with the largest counts are kept."""
    head = _head(plan, window, nonce)
    counts = np.concatenate([np.empty(0, np.int64), *level.counts.values()])
    above, room = level.threshold, MAX_LEVEL_BYTES // _LEAST_TUPLE_BYTES
    if len(counts) > room:
        above = int(np.partition(counts, -room)[-room])
    while True:
        dropped = above if above > level.threshold else None
        body = {"dropped_up_to": dropped, "tables": _tables(plan, level, texts, above)}
        raw = orjson.dumps(head | _parameters(level) | body)
        if len(raw) <= MAX_LEVEL_BYTES:
            return raw
        above = int(np.median(counts[counts > above]))


def _tables(
    plan: CentralPlan, level: Level, texts: list[list[str]], above: int
) -> list[dict[str, Any]]:
    tables = []
    for columns, cells in level.cells.items():
        counts = level.counts[columns]
        chosen = counts > above
        if not chosen.any():
            continue
        places = np.unravel_index(cells[chosen], [len(texts[i]) for i in columns])
        tables.append(
            {
                "attributes": [plan.columns[i] for i in columns],
                "values": [
                    [texts[i][v] for v in place.tolist()]
                    for i, place in zip(columns, places, strict=True)
                ],
                "counts": counts[chosen].tolist(),
            }
        )
    return tables


def _parameters(level: Level) -> dict[str, Any]:
    return {
        "k": level.k,
        "limit": level.limit,
        "stderr": float(level.variance) ** 0.5,
        "threshold": level.threshold,
        "candidates": level.candidates,
        "spurious_bound": level.spurious_bound,
        "extended_above": level.extended_above,
    }


def encode_manifest(
    plan: CentralPlan, window: int, nonce: str, released: Release, ledger: Ledger, software: str
) -> bytes:
    return orjson.dumps(
        _head(plan, window, nonce)
        | {
            "name": plan.name,
            "method": "dp-marginals",
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


def _head(plan: CentralPlan, window: int, nonce: str) -> dict[str, Any]:
    return {"v": VERSION, "plan": plan.digest, "window": window, "claim": nonce}
