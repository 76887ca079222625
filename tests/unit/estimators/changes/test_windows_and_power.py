from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from calmstream.estimators.changes import compare
from calmstream.estimators.changes.basis import contrasts
from calmstream.estimators.changes.power import (
    expected_fit,
    noncentral_tail,
    noncentrality,
    smallest_shift,
)
from calmstream.estimators.changes.windows import mean_repeats, relation
from calmstream.estimators.domain import Domain
from calmstream.estimators.mechanisms.registry import build
from calmstream.estimators.plan.counted import CountedView
from calmstream.estimators.view import View
from tests.unit.estimators.changes.test_compare import DOMAIN, one_view


@pytest.mark.parametrize(
    ("period", "one", "other", "flags", "repeats"),
    [
        (1, (5, 5), (0, 4), (), (False, False)),
        (7, (5, 5), (4, 4), (), (False, False)),
        (7, (7, 7), (0, 0), ("paired",), (False, False)),
        (7, (20, 20), (0, 19), ("paired",), (False, False)),
        (7, (14, 20), (0, 13), ("paired",), (False, False)),
        (7, (20, 20), (1, 19), ("paired", "repeated"), (False, True)),
        (2, (0, 2), (3, 3), ("paired",), (False, False)),
        (2, (3, 5), (6, 6), ("paired", "repeated"), (True, False)),
        (3, (0, 1), (2, 2), (), (False, False)),
    ],
)
def test_the_relation_of_windows(
    period: int,
    one: tuple[int, int],
    other: tuple[int, int],
    flags: tuple[str, ...],
    repeats: tuple[bool, bool],
) -> None:
    assert relation(period, one, other) == (flags, repeats)
    assert relation(period, other, one) == (flags, repeats[::-1])


def test_the_mean_number_of_reports_of_a_device() -> None:
    assert mean_repeats(7, {0: 100, 1: 100}) == 1.0
    assert mean_repeats(2, {0: 100, 1: 100, 2: 100, 3: 100}) == 2.0
    assert mean_repeats(2, {0: 100, 1: 50, 2: 100}) == pytest.approx((200 * 2 + 50) / 250)
    assert mean_repeats(2, {0: 0}) == 1.0


@pytest.mark.parametrize(("x", "freedom", "shift"), [(3, 1, 2), (40, 15, 30), (900, 300, 500)])
def test_the_tail_is_that_of_another_implementation(x: float, freedom: int, shift: float) -> None:
    assert noncentral_tail(x, freedom, shift) == pytest.approx(
        float(stats.ncx2.sf(x, freedom, shift)), rel=1e-9
    )
    assert noncentral_tail(x, freedom, 0.0) == pytest.approx(float(stats.chi2.sf(x, freedom)))


@pytest.mark.parametrize("name", ["grr", "oue", "subset-selection", "hadamard-response"])
def test_simulated_power_is_the_predicted_one(name: str) -> None:
    """Within five points, and four standard errors of the simulation."""
    more = {"size": 2} if name == "subset-selection" else {}
    mechanism = build({"name": name, "cells": 6, **more}, "1")
    n, alpha, target = 20_000, 0.01, (0, 1)
    views = (CountedView(View(target), mechanism, n, np.zeros(0, np.int64)),)
    shift = smallest_shift(views, DOMAIN, target, alpha)
    assert shift is not None
    even = np.full(6, 1 / 6)
    moved = even + shift * np.array([1, -0.2, -0.2, -0.2, -0.2, -0.2])
    generator = np.random.default_rng(1)
    found = 0
    draws = 200
    for _ in range(draws):
        sides = (one_view(mechanism, n, table, generator) for table in (even, moved))
        p = compare(*sides, [target], details=False).tables[0].p
        found += p is not None and p < alpha
    assert abs(found / draws - 0.8) < 0.05 + 4 * np.sqrt(0.8 * 0.2 / draws)


def test_noncentrality_is_a_quadratic_form_of_the_shift() -> None:
    mechanism = build({"name": "grr", "cells": 4}, "1")
    views = (CountedView(View((0, 1)), mechanism, 1000, np.zeros(0, np.int64)),)
    fit = expected_fit(views, Domain.binary(2), (0, 1), np.full(4, 0.25))
    delta = contrasts((2, 2)).T @ np.array([0.1, -0.1, 0.0, 0.0])
    strength, freedom = noncentrality(fit, fit, delta)
    p, q = float(mechanism.channel()[0][0]), float(mechanism.channel()[0][1])
    # Reported cells are uniform, so Pearson's form of the shift of reported frequencies applies.
    reported = (p - q) * np.array([0.1, -0.1, 0.0, 0.0])
    assert strength == pytest.approx(1000 / 2 * float(np.square(reported).sum()) / 0.25)
    assert freedom == 3
