"""The measurements of the study, by name; every cell has a seed of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import combinations, product
from typing import Any
from zlib import crc32

import numpy as np

from benchmarks.changes import shifts
from benchmarks.changes.batch import p_values
from benchmarks.changes.simulate import plan_of, records, single_view, view_frequencies, windows
from calmstream.estimators.changes.compare import ALPHA, FALSE_SHARE, benjamini_hochberg
from calmstream.estimators.planning import default_marginals

LEVELS = (0.05, 0.01, 0.001, 0.0001)
WINDOWS = 2000
ALARM_WINDOWS = {"adult": 1000, "taxi": 4000, "kosarak": 4000}
BATCH = 100
DATASETS = ("adult", "taxi", "kosarak")
PAIRS = {"adult": (0, 1), "adult-42": (2, 4), "taxi": (0, 1), "kosarak": (0, 1)}
"""The view of `size_of_mechanism`: 144, 42, 4 and 4 cells."""
REPORTS = (1 << 12, 1 << 14, 1 << 16, 1 << 18)
MECHANISMS = (
    "grr", "oue", "sue", "olh", "subset-selection", "hadamard-response", "hadamard-sketch",
)  # fmt: skip
PLANS = ("noise-aware", "calm", "inp-ht")
OTHERS = ("characters", "rr-ind-joint")
"""Plans with views or mechanisms that the others do not have."""
BY_REPORT = ("lopub",)
"""Plans whose mechanism (`bloom-rr`) is drawn report by report; no side has 2^20 or more."""
EPSILON = "1"
EARLIER = 100  # reports of all earlier windows, in windows


def size_of_mechanism(dataset: str, name: str, n: str, against: str) -> dict[str, Any]:
    """Null windows of one view over two attributes."""
    domain, _ = records(dataset)
    pair = PAIRS[dataset]
    return _nulls(dataset, single_view(name, domain, EPSILON, pair), int(n), against, [pair])


def size_of_plan(dataset: str, name: str, n: str, against: str) -> dict[str, Any]:
    """Null windows of a plan; two tables of one attribute and six of two."""
    domain, _ = records(dataset)
    plan = plan_of(name, domain, int(n), EPSILON)
    tables = [(0,), (3,), *list(combinations(range(len(domain)), 2))[::5]]
    return _nulls(dataset, plan.groups, int(n), against, tables)


def alarms(dataset: str, name: str, n: str, against: str) -> dict[str, Any]:
    """Null windows of a plan; all tables of one and of two attributes."""
    domain, _ = records(dataset)
    plan = plan_of(name, domain, int(n), EPSILON)
    tables = default_marginals(domain)
    return _nulls(dataset, plan.groups, int(n), against, tables, ALARM_WINDOWS[dataset])


def _nulls(
    dataset: str, groups: Any, n: int, against: str, tables: Any, count: int = WINDOWS
) -> dict[str, Any]:
    domain, codes = records(dataset)
    frequencies = view_frequencies(domain, groups, codes)
    generator = np.random.default_rng(crc32(f"{dataset}{groups}{n}{against}".encode()))
    other = n if against == "previous" else EARLIER * n
    found = []
    for _ in range(count // BATCH):
        args = (domain, groups, EPSILON, frequencies)
        one, two = (windows(*args, m, BATCH, generator) for m in (n, other))
        found.append(p_values(two, one, tables))
    return _rates(np.concatenate(found))


def _rates(p: np.ndarray) -> dict[str, Any]:
    """Return the shares of low p-values, and the windows with a false finding or alarm."""
    tested = np.isfinite(p)
    shares, errors = {}, {}
    for level in LEVELS:
        low = np.where(tested, p < level, 0.0)
        each = low.sum(axis=1)
        shares[str(level)] = float(low.sum() / max(tested.sum(), 1))
        errors[str(level)] = float(
            each.std() / np.sqrt(len(each)) / max(tested.sum(axis=1).mean(), 1)
        )
    smallest = np.array([_smallest(row[np.isfinite(row)].tolist()) for row in p])
    return {
        "windows": len(p),
        "tests": int(tested.sum()),
        "shares": shares,
        "errors": errors,
        "alarms": int((smallest < ALPHA).sum()),
        "findings": int((smallest < FALSE_SHARE).sum()),
        "untested": int((~tested).sum()),
    }


def _smallest(values: list[float]) -> float:
    return min((q for q in benjamini_hochberg(values) if q is not None), default=1.0)


_KINDS: dict[str, Callable[..., dict[str, Any]]] = {
    "size-mechanism": size_of_mechanism,
    "size-plan": size_of_plan,
    "alarms": alarms,
    "power": shifts.power,
    "kind": shifts.kind,
}


def measure(name: str) -> dict[str, Any]:
    kind, *rest = name.split("/")
    return _KINDS[kind](*rest)


_SMALL, *_MIDDLE, _LARGE = REPORTS
_FAMILIES = ("previous", "before")


def _names(kind: str, *parts: Iterable[object]) -> list[str]:
    return ["/".join(map(str, (kind, *chosen))) for chosen in product(*parts)]


CELLS = tuple(
    dict.fromkeys(
        (
            *_names("alarms", DATASETS[1:2], PLANS[:1], (1 << 16, _LARGE), _FAMILIES),
            *_names("alarms", DATASETS[2:], PLANS[:1], [1 << 16], _FAMILIES),
            *_names("alarms", DATASETS[:1], PLANS[:1], [_LARGE], _FAMILIES),
            *_names("power", DATASETS, PLANS[:2], shifts.SHIFTS),
            *_names("kind", DATASETS, PLANS[:2], shifts.KINDS),
            *_names("alarms", DATASETS, PLANS[1:2], [1 << 16], _FAMILIES),
            *_names("size-plan", DATASETS, PLANS[:2], (_SMALL, _LARGE), _FAMILIES),
            *_names("size-plan", DATASETS[1:], PLANS[2:], (_SMALL, _LARGE), _FAMILIES),
            *_names("size-plan", DATASETS[1:2], OTHERS, [1 << 16], _FAMILIES),
            *_names("size-plan", DATASETS[1:], BY_REPORT, [_SMALL], _FAMILIES),
            *_names("size-plan", DATASETS[1:], BY_REPORT, (*_MIDDLE, _LARGE), _FAMILIES[:1]),
            *_names("size-plan", DATASETS[1:], PLANS[:2], _MIDDLE, _FAMILIES),
            *_names("size-plan", DATASETS[:1], PLANS[:2], _MIDDLE, _FAMILIES[:1]),
            *_names(
                "size-mechanism", ["taxi", "adult-42", "kosarak"], MECHANISMS, REPORTS, _FAMILIES
            ),
            *_names("size-mechanism", DATASETS[:1], MECHANISMS, (_SMALL, _LARGE), _FAMILIES),
        )
    )
)
"""All cells, in the order in which they are measured."""
