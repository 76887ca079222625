"""The central statement against exact enumeration of small collections, whole."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from math import comb, exp

import numpy as np
import pytest
from scipy import stats

from benchmarks.accuracy.central import closed_form
from calmstream.estimators.domain import Domain
from calmstream.estimators.mechanisms.registry import build
from calmstream.estimators.numerics.shuffling import central_epsilon, divergence
from calmstream.estimators.plan import Guarantee, Plan
from calmstream.estimators.plan.central_statement import (
    CentralStatement,
    central_statement,
    expected_statement,
)
from tests.support.mechanisms import matrix
from tests.support.plans import draft

Histogram = tuple[int, ...]
N = 12


def channel(*specs: tuple[str, int, dict[str, int]]) -> np.ndarray:
    """Return the channel of a random view and its report: a row per record, all views equal."""
    blocks = [matrix(build({"name": n, "cells": c, **more}, "1")) for n, c, more in specs]
    rows = max(len(block) for block in blocks)
    # A record is the cell of the largest view; smaller views see it modulo their cells.
    parts = [block[np.arange(rows) % len(block)] / len(blocks) for block in blocks]
    return np.concatenate(parts, axis=1)


CHANNELS = {
    "grr": channel(("grr", 3, {})),
    "grr of two": channel(("grr", 2, {})),
    "oue": channel(("oue", 2, {})),
    "subset": channel(("subset-selection", 4, {"size": 2})),
    "two views": channel(("grr", 2, {}), ("grr", 3, {})),
}


def collections(rows: np.ndarray) -> dict[Histogram, float]:
    """Return the exact distribution of the histogram of independent reports, one row a device."""
    found: dict[Histogram, float] = {(0,) * rows.shape[1]: 1.0}
    for row in rows:
        step: dict[Histogram, float] = defaultdict(float)
        for histogram, p in found.items():
            for y, q in enumerate(row):
                if q > 0.0:
                    step[(*histogram[:y], histogram[y] + 1, *histogram[y + 1 :])] += p * q
        found = step
    return found


def hockey_stick(one: dict[Histogram, float], other: dict[Histogram, float], e: float) -> float:
    ratio = exp(e)
    keys = set(one) | set(other)
    there = sum(max(one.get(k, 0.0) - ratio * other.get(k, 0.0), 0.0) for k in keys)
    back = sum(max(other.get(k, 0.0) - ratio * one.get(k, 0.0), 0.0) for k in keys)
    return max(there, back)


def true_delta(rows: np.ndarray, others: list[int], pair: tuple[int, int], e: float) -> float:
    one, other = (collections(rows[[x, *others]]) for x in pair)
    return hockey_stick(one, other, e)


@pytest.mark.parametrize("name", CHANNELS)
@pytest.mark.parametrize("n", [2, 5, 9])
def test_no_small_collection_is_above_the_statement(name: str, n: int) -> None:
    rows = CHANNELS[name]
    populations = [[0] * (n - 1), [1] * (n - 1), [i % len(rows) for i in range(n - 1)]]
    for others in populations:
        for e in (0.0, 0.1, 0.3, 0.6, 0.9):
            assert true_delta(rows, others, (0, 1), e) <= divergence(1.0, n, e) + 1e-12


def exact_clones(epsilon: float, n: int, central: float) -> float:
    """Return the divergence of the two distributions by listing all their values."""
    p, own = exp(-epsilon), exp(epsilon) / (exp(epsilon) + 1.0)
    total = 0.0
    for c in range(n):
        weight = stats.binom.pmf(c, n - 1, p)
        for k in range(c + 2):
            left = comb(c, k - 1) if k else 0
            right = comb(c, k) if k <= c else 0
            one = (own * left + (1 - own) * right) / 2**c
            other = ((1 - own) * left + own * right) / 2**c
            total += weight * max(one - exp(central) * other, 0.0)
    return float(total)


@pytest.mark.parametrize(("epsilon", "n"), [(0.5, 30), (1.0, 200), (2.0, 150), (4.0, 300)])
def test_the_divergence_is_that_of_listed_values(epsilon: float, n: int) -> None:
    for central in (0.01, 0.1, 0.4):
        exact = exact_clones(epsilon, n, central)
        stated = divergence(epsilon, n, central)
        assert exact <= stated <= exact * 1.001 + 1e-15


@pytest.mark.parametrize(
    ("n", "delta", "expected"),
    [
        (1_000, 1e-6, 0.1824),
        (65_536, 1e-6, 0.01922),
        pytest.param(262_144, 3.8e-7, 0.00982, marks=pytest.mark.slow),
    ],
)
def test_epsilon_is_the_published_number(n: int, delta: float, expected: float) -> None:
    found = central_epsilon(1.0, n, delta)
    assert found == pytest.approx(expected, rel=2e-3)
    bound = closed_form(1.0, n, delta)
    assert bound is not None
    assert found < bound


# Each condition, broken on purpose: the true divergence is above the statement of twelve devices.


def test_with_early_sets_a_reader_sees_increments() -> None:
    """Condition (a): between two early sets only one report arrived."""
    rows = CHANNELS["grr of two"]
    seen = true_delta(rows, [], (0, 1), 0.5)
    assert seen > divergence(1.0, N, 0.5)
    assert central_statement(plan(early=True), 100_000, 100_000) is None


def test_forged_reports_hide_nobody() -> None:
    """Condition (b): a forger that sends eleven of twelve reports subtracts them."""
    rows = CHANNELS["grr of two"]
    known = np.vstack([rows, [1.0, 0.0]])
    seen = true_delta(known, [2] * (N - 1), (0, 1), 0.5)
    assert seen > divergence(1.0, N, 0.5)
    assert stated(plan()).n == 90_000


def test_a_known_view_takes_the_others_out() -> None:
    """Condition (c): who knows the view of a device need not look at reports on other views."""
    rows = CHANNELS["two views"]
    # Of twelve devices only the first is in the view of two cells.
    alone, rest = rows[:, :2] * 2, rows[:, 2:] * 2
    first = [np.concatenate([alone[x], np.zeros(3)]) for x in (0, 1)]
    others = [np.concatenate([np.zeros(2), rest[0]])] * (N - 1)
    one, other = (collections(np.stack([own, *others])) for own in first)
    assert hockey_stick(one, other, 0.5) > divergence(1.0, N, 0.5)
    assert any("group and view" in line for line in stated(plan()).assumes)


def test_reports_of_a_device_that_keeps_its_view_link() -> None:
    """Condition (d): twelve windows of a device that is alone in its view."""
    rows = CHANNELS["grr of two"]
    one, other = (collections(rows[[x] * N]) for x in (0, 1))
    assert hockey_stick(one, other, 0.5) > divergence(1.0, N, 0.5)
    found = stated(plan(guarantee=Guarantee("w-event", 7)), smallest_view=1_000)
    assert found.n == 900
    assert found.epsilon > stated(plan(), smallest_view=1_000).epsilon
    assert any("add up" in line for line in found.assumes)


def test_two_records_are_more_than_one() -> None:
    """Condition (e): a household of six answers alike."""
    rows = CHANNELS["grr of two"]
    one, other = (collections(rows[[x] * 6 + [0] * 6]) for x in (0, 1))
    assert hockey_stick(one, other, 0.5) > divergence(1.0, N, 0.5)
    assert any("households" in line for line in stated(plan()).assumes)


@pytest.mark.slow
def test_delta_is_at_most_a_tenth_of_a_report() -> None:
    for reports in (1_000, 10**5, 10**6):
        found = stated(plan(), reports, reports)
        assert found.delta <= min(1 / (10 * found.n), 1e-6)


def test_too_few_reports_get_no_statement() -> None:
    assert central_statement(plan(), 1, 1) is None
    assert central_statement(plan(), 5, 5) is None


def test_the_expected_statement_is_that_of_the_expected_reports() -> None:
    one = plan()
    assert expected_statement(one) == stated(one, one.users, one.users)


def stated(plan: Plan, reports: int = 100_000, smallest_view: int = 100_000) -> CentralStatement:
    found = central_statement(plan, reports, smallest_view)
    assert found is not None
    return found


def plan(*, early: bool = False, guarantee: Guarantee | None = None) -> Plan:
    changes = {"windows": 14, "guarantee": guarantee or Guarantee()}
    return replace(draft(Domain.binary(2), users=100_000, **changes)[0], early=early)
