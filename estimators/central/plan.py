"""The plan of a central collection; no field makes it a plan for local reports by accident."""

from __future__ import annotations

import hashlib
import re
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, get_type_hints

import orjson

from calmstream.common.errors import PlanError
from calmstream.common.text import unseen
from calmstream.estimators.central.accounting import BOUND, allocate
from calmstream.estimators.central.dp_marginals import DpMarginals
from calmstream.estimators.plan.document import parse, read_object

MODEL = "central"
CENTRAL_VERSION = 1
MAX_COLUMNS = 256
MAX_COLUMN_NAME = 256  # characters; so a record with any values fits a batch
MAX_LEVELS = 8

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,46}[a-z0-9])?")
_RATIO = re.compile(r"0\.[0-9]{1,4}|1", re.ASCII)
_STATED = {"version": CENTRAL_VERSION, "model": MODEL, "bound": BOUND}
_OPTIONAL: dict[str, Any] = {"sample": "1", "users": 0}


@dataclass(frozen=True)
class CentralPlan:
    """One document for senders, the aggregator and readers.

    Window w covers [start + w·window, start + (w+1)·window) of the log's append times, in seconds
    since the epoch, and is released once. All ``releases`` windows together cost (epsilon, delta),
    evenly, for users that may be in every one of them.
    """

    name: str
    purpose: str
    owner: str
    columns: tuple[str, ...]  # names; the release learns their values, privately
    epsilon: str
    delta: str
    levels: int  # T, the largest tuples that are extracted
    start: int
    window: int
    releases: int
    partitions: int = 1
    quantile: str = "0.99"  # this and the next two: see `DpMarginals`
    spurious: str = "0.01"
    seen_only: bool = False
    sample: str = "1"  # share of the users that count, chosen by a keyed hash of their ids
    users: int = 0  # maximum of a window for which the plan is meant; 0: not stated

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise PlanError(f"name: expected lower-case letters, digits, hyphens: {self.name!r}")
        for name in ("purpose", "owner"):
            if why := unseen(getattr(self, name)):
                raise PlanError(f"{name}: {why}")
        if not 1 <= len(self.columns) <= MAX_COLUMNS or len(set(self.columns)) < len(self.columns):
            raise PlanError(f"columns: expected 1 to {MAX_COLUMNS}, none twice")
        if not all(0 < len(column) <= MAX_COLUMN_NAME for column in self.columns):
            raise PlanError(f"columns: expected names of 1 to {MAX_COLUMN_NAME} characters")
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
        self.sampled  # noqa: B018 - validates sample
        self.method  # noqa: B018 - validates quantile, spurious, epsilon and delta

    @cached_property
    def method(self) -> DpMarginals:
        quantile, spurious = _ratio(self, "quantile"), _ratio(self, "spurious")
        if spurious == 1:
            raise PlanError("spurious must lie between 0 and 1")
        spend = allocate(self.epsilon, self.delta, self.levels, self.releases)
        return DpMarginals(spend, quantile, spurious, self.seen_only)

    @cached_property
    def sampled(self) -> Fraction:
        """Share of the users that count, in (0, 1]."""
        return _ratio(self, "sample")

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
        # Left out where they say nothing: documents from before keep their digests.
        fields = {n: v for n, v in asdict(self).items() if v != _OPTIONAL.get(n)}
        return _STATED | fields

    def to_bytes(self) -> bytes:
        return orjson.dumps(self.to_json(), option=orjson.OPT_SORT_KEYS)


def _ratio(plan: CentralPlan, field: str) -> Fraction:
    if not _RATIO.fullmatch(getattr(plan, field)):
        raise PlanError(f'{field}: expected a decimal string such as "0.99"')
    share = Fraction(getattr(plan, field))
    if not share:
        raise PlanError(f"{field} must lie in (0, 1]")
    return share


def read_central_plan(raw: bytes) -> CentralPlan:
    """Return the central plan in ``raw``, read strictly."""
    document = parse(raw)
    if not isinstance(document, dict) or document.get("model") != MODEL:
        raise PlanError("this plan is not central: it is for perturbed reports, not raw records")
    for name, value in _STATED.items():
        stated = document.pop(name, None)
        if (type(stated), stated) != (type(value), value):
            raise PlanError(f"{name}: expected {value}, got {stated!r:.40}")
    types = {**get_type_hints(CentralPlan), "columns": list}
    fields = read_object(
        document,
        "plan",
        {name: kind for name, kind in types.items() if name not in _OPTIONAL},
        {name: types[name] for name in _OPTIONAL},
    )
    if not all(isinstance(column, str) for column in fields["columns"]):
        raise PlanError("columns: expected strings")
    return CentralPlan(**(fields | {"columns": tuple(fields["columns"])}))
