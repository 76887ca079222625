"""Records of the central topics: batches of raw records, and releases.

Raw 1.0, JSON: ``{"v": "central-1.0", "plan": "<digest>", "n": 2, "users": ["u1", "u2"],
"columns": {"sex": ["F", null], ...}}``: one entry per user and column; null or "" is missing. The
key is a random batch id of 16 bytes. The version tag makes topics of local reports refuse it.

Releases, JSON: one record per level, key ``<window>/<k>``, and a manifest, key ``<window>``,
written last. Neither says how many records there were: that number is private.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import orjson
from numpy.typing import NDArray

from estimators.central.tuples import Records
from estimators.errors import InvalidInput, Reason, Rejection

if TYPE_CHECKING:
    from estimators.central.dp_marginals import Level, Release
    from estimators.central.ledger import Ledger
    from estimators.central.plan import CentralPlan

VERSION = "central-1.0"
BATCH_ID_BYTES = 16
MAX_BATCH_BYTES = 1 << 20
MAX_BATCH_RECORDS = 1 << 14
MAX_TEXT = 256
"""Characters of a value or a user id."""

MAX_LEVEL_BYTES = 7 << 20
TICK = b'{"tick":1,"v":"central-1.0"}'

Texts = NDArray[np.str_]


@dataclass(frozen=True, slots=True, eq=False)
class RawBatch:
    """Raw records of one batch.

    Attributes:
        users: shape (n,), ids; one record per user and window counts.
        columns: for every column of the plan, shape (n,), "" where the value is missing.
    """

    users: Texts
    columns: tuple[Texts, ...]

    @property
    def memory(self) -> int:
        """Bytes that it takes up, about: four per character of each column's longest value."""
        return 1024 + self.users.nbytes + sum(column.nbytes for column in self.columns)


def encode_raw(
    plan: CentralPlan, users: Sequence[str], columns: Sequence[Sequence[str | None]]
) -> bytes:
    """The body of a batch.

    Raises:
        InvalidInput: more than one batch may hold; send fewer records at once.
    """
    body = orjson.dumps(
        {
            "v": VERSION,
            "plan": plan.digest,
            "n": len(users),
            "users": list(users),
            "columns": {n: list(c) for n, c in zip(plan.columns, columns, strict=True)},
        }
    )
    if len(body) > MAX_BATCH_BYTES or len(users) > MAX_BATCH_RECORDS:
        raise InvalidInput("a batch of raw records is too large: send fewer at once")
    return body


def decode_raw(plan: CentralPlan, key: bytes | None, value: bytes | None) -> RawBatch:
    """The batch in a record of the raw topic.

    Raises:
        Rejection: and nothing else, whatever the bytes; never with a value in its text.
    """
    if value is not None and len(value) > MAX_BATCH_BYTES:
        _reject(Reason.OVERSIZED, f"{len(value)} bytes, at most {MAX_BATCH_BYTES}")
    try:
        body = orjson.loads(value or b"")
    except (orjson.JSONDecodeError, RecursionError):
        _reject(Reason.UNDECODABLE, "not JSON")
    if not isinstance(body, dict):
        _reject(Reason.UNDECODABLE, "not a JSON object")
    if body.get("v") != VERSION:
        _reject(Reason.UNKNOWN_VERSION, f"expected {VERSION}: raw records of a central plan")
    if body.get("plan") != plan.digest:
        _reject(Reason.UNKNOWN_PLAN, f"expected plan {plan.digest[:8]}")
    if key is None or len(key) != BATCH_ID_BYTES:
        _reject(Reason.BAD_BATCH_ID, f"the key must be a batch id of {BATCH_ID_BYTES} bytes")
    n, columns = body.get("n"), body.get("columns")
    if type(n) is not int or not 1 <= n <= MAX_BATCH_RECORDS:
        _reject(Reason.OUT_OF_RANGE, f"n must be 1 to {MAX_BATCH_RECORDS}")
    if not isinstance(columns, dict) or set(columns) != set(plan.columns):
        _reject(Reason.MALFORMED, f"expected the {len(plan.columns)} columns of the plan")
    users = _texts("users", body.get("users"), n)
    if (users == "").any():
        _reject(Reason.MALFORMED, "a record without a user")
    return RawBatch(users, tuple(_texts("a column", columns[name], n) for name in plan.columns))


def _texts(what: str, values: object, n: int) -> Texts:
    if not isinstance(values, list) or not set(map(type, values)) <= {str, type(None)}:
        _reject(Reason.MALFORMED, f"{what} must be a list of strings")
    if len(values) != n:
        _reject(Reason.LENGTH_MISMATCH, f"{what} has {len(values)} entries, n is {n}")
    if max((len(x) for x in values if x), default=0) > MAX_TEXT:
        _reject(Reason.OUT_OF_RANGE, f"{what} has an entry of more than {MAX_TEXT} characters")
    return np.array([x or "" for x in values], np.str_)


def _reject(reason: Reason, detail: str) -> NoReturn:
    raise Rejection(reason, detail)


def code_records(
    batches: Sequence[RawBatch], columns: int
) -> tuple[Records, tuple[list[str], ...]]:
    """All records of a window in codes, one per user: the first one read.

    Returns:
        The records and, for every column, the label of each code.
    """
    if not batches:
        return Records(np.empty((0, columns), np.int64), (0,) * columns), ([],) * columns
    _, first = np.unique(np.concatenate([b.users for b in batches]), return_index=True)
    codes = np.full((len(first), columns), -1, np.int64)
    labels: list[list[str]] = []
    for j in range(columns):
        values = np.concatenate([b.columns[j] for b in batches])[first]
        present = values != ""
        names, codes[present, j] = np.unique(values[present], return_inverse=True)
        labels.append(names.tolist())
    return Records(codes, tuple(map(len, labels))), tuple(labels)


def encode_level(
    plan: CentralPlan, window: int, level: Level, released: Release, labels: Sequence[list[str]]
) -> bytes:
    """One level; where it does not fit a record the tuples with the largest counts are kept."""
    extracted = [
        [labels[i][code] for code in values.tolist()] for i, values in enumerate(released.values)
    ]
    kept, dropped = level.threshold, 0
    while True:
        body = _level_body(plan, window, level, extracted, kept)
        raw = orjson.dumps(body | {"dropped_up_to": kept if dropped else None})
        if len(raw) <= MAX_LEVEL_BYTES:
            return raw
        counts = np.concatenate([c[c > kept] for c in level.counts.values()])
        kept, dropped = int(np.median(counts)), 1


def _level_body(
    plan: CentralPlan, window: int, level: Level, extracted: list[list[str]], above: int
) -> dict[str, Any]:
    tables = []
    for columns, cells in level.cells.items():
        counts = level.counts[columns]
        chosen = counts > above
        if not chosen.any():
            continue
        places = np.unravel_index(cells[chosen], [level.cardinalities[i] for i in columns])
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
        "tables": tables,
    }


def encode_manifest(
    plan: CentralPlan, window: int, released: Release, ledger: Ledger, software: str
) -> bytes:
    """What a reader must know of one release; written after its levels."""
    cost = plan.allocation.cost
    return orjson.dumps(
        {
            "v": VERSION,
            "plan": plan.digest,
            "name": plan.name,
            "method": "dp-marginals",
            "window": window,
            "start": plan.start + window * plan.window,
            "end": plan.start + (window + 1) * plan.window,
            "levels": [level.k for level in released.levels],
            "epsilon": plan.epsilon,
            "delta": plan.delta,
            "releases": plan.releases,
            "rho": float(cost.rho),
            "spent": ledger.summary(),
            "software": software,
        }
    )


def read_release(raw: bytes) -> dict[str, Any]:
    """A level or a manifest.

    Raises:
        InvalidInput: something else, or another version.
    """
    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise InvalidInput(f"a release is not JSON: {error}") from None
    if not isinstance(body, dict) or body.get("v") != VERSION:
        raise InvalidInput(f"a release of another version than {VERSION}")
    return body
