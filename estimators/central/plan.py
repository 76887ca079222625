"""The plan of a central collection; no field makes it a plan for local reports by accident."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import orjson

from calmstream.common.errors import PlanError
from calmstream.common.text import unseen
from calmstream.estimators.central.accounting import BOUND, Allocation, allocate
from calmstream.estimators.central.dp_marginals import ReleaseSettings
from calmstream.estimators.central.ledger import Ledger

MODEL = "central"
CENTRAL_VERSION = 1
MAX_COLUMNS = 256
MAX_LEVELS = 8

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,46}[a-z0-9])?")
_RATIO = re.compile(r"0\.[0-9]{1,4}|1", re.ASCII)

_FIELDS: dict[str, type] = {
    "version": int,
    "model": str,
    "name": str,
    "purpose": str,
    "owner": str,
    "columns": list,
    "epsilon": str,
    "delta": str,
    "levels": int,
    "quantile": str,
    "spurious": str,
    "seen_only": bool,
    "start": int,
    "window": int,
    "releases": int,
    "partitions": int,
    "bound": str,
}

_OPTIONAL: dict[str, Any] = {"sample": "1", "users": 0}


@dataclass(frozen=True)
class CentralPlan:
    """One document for senders, the aggregator and readers. Times are seconds since the epoch.

    Window w covers [start + w·window, start + (w+1)·window) of the log's append times and is
    released once; all ``releases`` windows together cost (epsilon, delta), evenly, for users that
    may be in every one of them. Decimal numbers are strings such as "0.99".

    Attributes:
        columns: names; their values are learnt, privately, by the release.
        levels: T, the largest tuples that are extracted.
        quantile, spurious, seen_only: see `ReleaseSettings`.
        sample: share of the users that count, chosen by a keyed hash of their ids.
        users: maximum number of users of a window for which the plan is meant; 0: not stated.
    """

    name: str
    purpose: str
    owner: str
    columns: tuple[str, ...]
    epsilon: str
    delta: str
    levels: int
    start: int
    window: int
    releases: int
    partitions: int = 1
    quantile: str = "0.99"
    spurious: str = "0.01"
    seen_only: bool = False
    sample: str = "1"
    users: int = 0

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise PlanError(f"name: expected lower-case letters, digits, hyphens: {self.name!r}")
        for name in ("purpose", "owner"):
            if why := unseen(getattr(self, name)):
                raise PlanError(f"{name}: {why}")
        if not 1 <= len(self.columns) <= MAX_COLUMNS or len(set(self.columns)) < len(self.columns):
            raise PlanError(f"columns: expected 1 to {MAX_COLUMNS}, none twice")
        if not all(self.columns):
            raise PlanError("columns: expected names that are not empty")
        limits = {
            "levels": (1, min(MAX_LEVELS, len(self.columns))),
            "start": (0, 1 << 40),
            "window": (1, 1 << 31),
            "releases": (1, 100_000),
            "partitions": (1, 1024),
            "users": (0, 1 << 40),
        }
        for field, (low, high) in limits.items():
            value = getattr(self, field)
            if not low <= value <= high:
                raise PlanError(f"{field}: expected {low} to {high}, got {value}")
        self.settings  # noqa: B018 - validates quantile and spurious
        self.sampled  # noqa: B018 - validates sample
        self.allocation  # noqa: B018 - validates epsilon and delta

    @cached_property
    def settings(self) -> ReleaseSettings:
        return ReleaseSettings(_ratio(self, "quantile"), _ratio(self, "spurious"), self.seen_only)

    @cached_property
    def sampled(self) -> Fraction:
        """Share of the users that count, in (0, 1]."""
        share = _ratio(self, "sample")
        if not share:
            raise PlanError("sample must lie in (0, 1]")
        return share

    @cached_property
    def allocation(self) -> Allocation:
        return allocate(self.epsilon, self.delta, self.levels, self.releases)

    @property
    def new_ledger(self) -> Ledger:
        return Ledger(self.digest, self.epsilon, self.delta)

    def window_end(self, window: int) -> int:
        """End (exclusive) of a window in milliseconds since the epoch."""
        return (self.start + (window + 1) * self.window) * 1000

    def window_at(self, milliseconds: int) -> int:
        """Return the number of the window that contains a time; negative before the start."""
        return (milliseconds - self.start * 1000) // (self.window * 1000)

    @cached_property
    def digest(self) -> str:
        return hashlib.sha256(self.to_bytes()).hexdigest()

    def to_json(self) -> dict[str, Any]:
        fields: dict[str, Any] = {name: getattr(self, name, None) for name in _FIELDS}
        own = {
            "version": CENTRAL_VERSION,
            "model": MODEL,
            "columns": list(self.columns),
            "bound": BOUND,
        }
        later = {name: getattr(self, name) for name in _OPTIONAL}
        # Left out where they say nothing: documents from before keep their digests.
        return fields | own | {n: v for n, v in later.items() if v != _OPTIONAL[n]}

    def to_bytes(self) -> bytes:
        return orjson.dumps(self.to_json(), option=orjson.OPT_SORT_KEYS)


def _ratio(plan: CentralPlan, field: str) -> Fraction:
    if not _RATIO.fullmatch(getattr(plan, field)):
        raise PlanError(f'{field}: expected a decimal string such as "0.99"')
    return Fraction(getattr(plan, field))


def read_central_plan(raw: bytes) -> CentralPlan:
    """Return the central plan in ``raw``, read strictly."""
    try:
        document = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise PlanError(f"plan: not JSON: {error}") from None
    if not isinstance(document, dict):
        raise PlanError("plan: expected an object")
    if document.get("model") != MODEL:
        raise PlanError("this plan is not central: it is for perturbed reports, not raw records")
    if document.get("version") != CENTRAL_VERSION:
        raise PlanError(f"version: this release reads central version {CENTRAL_VERSION}")
    for name in sorted((set(document) - set(_OPTIONAL)) ^ set(_FIELDS)):
        raise PlanError(f"plan: {'unknown' if name in document else 'missing'} field {name!r}")
    document = _OPTIONAL | document
    for name, kind in (_FIELDS | {name: type(v) for name, v in _OPTIONAL.items()}).items():
        if type(document[name]) is not kind:
            raise PlanError(f"{name}: expected {kind.__name__}, got {document[name]!r:.40}")
    if not all(isinstance(column, str) for column in document["columns"]):
        raise PlanError("columns: expected strings")
    if document["bound"] != BOUND:
        raise PlanError(f"bound: expected {BOUND}, got {document['bound']!r:.40}")
    stated = ("version", "model", "bound")
    own = {name: value for name, value in document.items() if name not in stated}
    return CentralPlan(**(own | {"columns": tuple(own["columns"])}))
