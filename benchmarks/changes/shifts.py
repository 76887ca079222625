"""Windows whose records differ: the power of the tests, and what kind of change they find."""

from __future__ import annotations

from itertools import combinations
from typing import Any
from zlib import crc32

import numpy as np

from benchmarks.changes.simulate import plan_of, records, windows
from calmstream.estimators.arrays import Floats
from calmstream.estimators.changes import Source, compare
from calmstream.estimators.changes.basis import contrasts
from calmstream.estimators.changes.power import (
    expected_fit,
    noncentral_tail,
    noncentrality,
    planned_views,
)
from calmstream.estimators.domain import Domain
from calmstream.estimators.numerics.distribution import critical_value
from calmstream.estimators.plan import Plan

SHIFTS = ("cell", "margin", "dependence")
KINDS = ("margin", "dependence")
REPORTS = 1 << 18
WINDOWS = 400
MARGIN_WINDOWS = 4000  # windows whose margins shift: the share of those called dependence is small
BATCH = 200
LEVEL = 0.05
EPSILON = "1"


def shifted(pi: Floats, shape: tuple[int, int], how: str, size: float) -> Floats:
    """Return a shifted table; sizes have the same meaning for one kind of shift only."""
    table = pi.reshape(shape)
    if how == "cell":
        out = table * (1.0 - size / (1.0 - table[0, 0]))
        out[0, 0] = table[0, 0] + size
        return out.ravel()
    if how == "margin":
        rows = table.sum(axis=1)
        moved = rows * (1.0 - size / (1.0 - rows[0]))
        moved[0] = rows[0] + size
        return (table * (moved / rows)[:, None]).ravel()
    out = table.copy()
    # In the direction that has more room.
    sign = 1.0 if min(out[0, 1], out[1, 0]) > min(out[0, 0], out[1, 1]) else -1.0
    out[:2, :2] += sign * size * np.array([[1.0, -1.0], [-1.0, 1.0]])
    return out.ravel()


def power(dataset: str, method: str, how: str) -> dict[str, Any]:
    """Simulated and predicted power at 5 %."""
    domain, codes = records(dataset)
    target = _target(domain, codes)
    plan = plan_of(method, domain, REPORTS, EPSILON)
    shape = domain.shape(target)
    pi = domain.histogram(codes, target) / len(codes)
    size, predicted = _for_power(plan, target, pi, how, 0.8)
    moved = shifted(pi, shape, how, size)
    generator = np.random.default_rng(crc32(f"{dataset}{method}{how}".encode()))
    args = (plan, domain, codes, target, generator)
    found = [
        compare(a, b, [target], details=False).tables[0].p
        for a, b in zip(_windows(*args, pi, WINDOWS), _windows(*args, moved, WINDOWS), strict=True)
    ]
    rate = float(np.mean([p is not None and p < LEVEL for p in found]))
    return {"shift": size, "predicted": predicted, "simulated": rate, "windows": WINDOWS}


def kind(dataset: str, method: str, how: str) -> dict[str, Any]:
    """How often a change of an independent pair is called one of dependence, where power is .95."""
    domain, codes = records(dataset)
    target = _target(domain, codes)
    plan = plan_of(method, domain, REPORTS, EPSILON)
    shape = domain.shape(target)
    pi = (domain.histogram(codes, target) / len(codes)).reshape(shape)
    pi = np.outer(pi.sum(axis=1), pi.sum(axis=0)).ravel()
    size, predicted = _for_power(plan, target, pi, how, 0.95)
    moved = shifted(pi, shape, how, size)
    generator = np.random.default_rng(crc32(f"kind{dataset}{method}{how}".encode()))
    args = (plan, domain, codes, target, generator)
    windows = MARGIN_WINDOWS if how == "margin" else WINDOWS
    changed = called = rejected = 0
    for _ in range(windows // BATCH):
        for a, b in zip(_windows(*args, pi, BATCH), _windows(*args, moved, BATCH), strict=True):
            table = compare(a, b, [target]).tables[0]
            if table.p is None or table.dependence is None:
                continue
            rejected += table.dependence < LEVEL
            if table.p < LEVEL:
                changed += 1
                called += table.dependence < LEVEL
    return {
        "shift": size, "predicted": predicted, "windows": windows,
        "changed": changed, "dependence": called, "rejected": rejected,
    }  # fmt: skip


def _windows(
    plan: Plan,
    domain: Domain,
    codes: np.ndarray,
    target: tuple[int, ...],
    generator: np.random.Generator,
    table: Floats,
    draws: int,
) -> list[Source]:
    """Return windows of records that are weighted so that the target has this table."""
    own = domain.histogram(codes, target) / len(codes)
    cell = domain.cells(codes, target)
    weight = (table / np.where(own > 0, own, 1.0))[cell]
    frequencies = []
    for group in plan.groups:
        for view in group.views:
            counts = np.bincount(
                view.inputs(codes, domain), weights=weight, minlength=view.cells(domain)
            )
            frequencies.append(counts / counts.sum())
    args = (domain, plan.groups, EPSILON, frequencies, REPORTS, draws, generator)
    return list(windows(*args).sources())


def _target(domain: Domain, codes: np.ndarray) -> tuple[int, int]:
    """Return the pair whose rarest cell is the most frequent: it has room for shifts."""
    pairs = combinations(range(len(domain)), 2)
    return max(pairs, key=lambda pair: int(domain.histogram(codes, pair).min()))


def _for_power(
    plan: Plan, target: tuple[int, int], pi: Floats, how: str, power: float
) -> tuple[float, float]:
    """Return the size of a shift with this predicted power, or the largest one, and its power."""
    domain = plan.domain
    views = planned_views(plan, REPORTS)
    shape = domain.shape(target)
    low, high, reached = 0.0, 0.5, LEVEL
    for _ in range(30):
        size = (low + high) / 2
        moved = shifted(pi, shape, how, size)
        if (moved < 0).any():
            high = size
            continue
        fits = [expected_fit(views, domain, target, t) for t in (pi, moved)]
        strength, freedom = noncentrality(fits[0], fits[1], contrasts(shape).T @ (moved - pi))
        found = noncentral_tail(critical_value(LEVEL, freedom), freedom, strength)
        if found < power:
            low, reached = size, found
        else:
            high = size
    return low, reached
