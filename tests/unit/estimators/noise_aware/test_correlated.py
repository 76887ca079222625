"""Check pooling with exact covariances against dense least squares, and its stated errors."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from calmstream.estimators.mechanisms.adaptive import best_oracle
from calmstream.estimators.noise_aware.input import correlated
from calmstream.estimators.noise_aware.input.correlated import LeastSquares, Near, ViewEstimate
from calmstream.estimators.noise_aware.input.features import Features
from calmstream.estimators.noise_aware.input.statistics import Statistics, cell_variance, collect
from calmstream.estimators.plan import Plan
from tests.support.noise_aware import chain, domain_of, plan_for, tallies_of

Floats = NDArray[np.float64]

CARDINALITIES = (2, 3, 2, 4)
VIEWS = ((0,), (1,), (0, 1), (0, 1, 2), (1, 2), (2, 3), (0, 3), (1, 2, 3))


def _views(epsilon: str) -> tuple[list[ViewEstimate], Near]:
    """Return views with noise about a dependent table; mechanisms differ by number of cells."""
    random = np.random.default_rng(11)
    features = Features(CARDINALITIES)
    whole = random.dirichlet(np.full(48, 0.3)).reshape(CARDINALITIES)
    views = []
    for number, own in enumerate(VIEWS):
        others = tuple(i for i in range(4) if i not in own)
        table, n = whole.sum(axis=others).ravel(), 500 + 100 * number
        mechanism = best_oracle(epsilon, table.size)
        counts = mechanism.draw_tally(random.multinomial(n, table), random)
        views.append(ViewEstimate(own, mechanism.estimate(counts, n), mechanism, n))
    means = np.concatenate(
        [
            features.codes[i].T @ whole.sum(axis=tuple(a for a in range(4) if a != i))
            for i in range(4)
        ]
    )
    size = features.size
    return views, Near(features, means, np.outer(means, means), np.ones((size, size)))


def _dense(views: list[ViewEstimate], near: Near) -> dict[tuple[int, ...], tuple[Floats, float]]:
    """Solve for all interactions at once; return estimates in features and mean variances."""
    shape = near.features.cardinalities
    grid = np.indices(shape).reshape(len(shape), -1)
    sets = sorted({s for v in views for k in (1, 2, 3) for s in combinations(v.attributes, k)})
    sides = [np.linalg.svd(np.eye(r) - 1.0 / r)[0][:, : r - 1] * np.sqrt(r) for r in shape]
    columns, where = [np.ones((grid.shape[1], 1))], [slice(0, 1)]
    for own in sets:
        block = np.ones((grid.shape[1], 1))
        for i in own:
            block = np.einsum("xa,xb->xab", block, sides[i][grid[i]]).reshape(len(block), -1)
        columns.append(block)
        where.append(slice(where[-1].stop, where[-1].stop + block.shape[1]))
    basis = np.hstack(columns)
    information, score = 0.0, 0.0
    for view in views:
        own = [shape[i] for i in view.attributes]
        cell = np.ravel_multi_index(tuple(grid[list(view.attributes)]), own)
        adding = np.eye(view.table.size)[:, cell]  # sums the cells of all attributes
        slope = adding @ basis / basis.shape[0]
        near_table = near.tables([view.attributes])[0]
        precision = view.reports * np.linalg.pinv(
            view.mechanism.table_covariance(1, near_table, own, tuple(range(len(own)))), rcond=1e-9
        )
        information = information + slope[:, 1:].T @ precision @ slope[:, 1:]
        score = score + slope[:, 1:].T @ precision @ (view.table - slope[:, 0])
    spread = np.linalg.inv(information)
    solved = spread @ score
    found = {}
    for own, place in zip(sets, where[1:], strict=True):
        at = slice(place.start - 1, place.stop - 1)
        block = solved[at].reshape([shape[i] - 1 for i in own])
        for i in own:  # sides of a bit have either sign
            side = sides[i] / np.sqrt(shape[i]) if shape[i] > 2 else sides[i][:1]
            block = np.tensordot(block, side, (0, 1))
        found[own] = (block, float(np.diagonal(spread)[at].mean()))
    return found


@pytest.mark.parametrize("epsilon", ["0.5", "2", "4"])
def test_steps_equal_one_dense_least_squares_problem(epsilon: str) -> None:
    views, near = _views(epsilon)
    expected, found = _dense(views, near), LeastSquares(views, near, 3)
    assert set(found.values) == set(expected)
    for own, (value, variance) in expected.items():
        block = found.values[own]
        for i in own:
            block = np.tensordot(block, correlated.contrasts(CARDINALITIES[i]), (0, 1))
        np.testing.assert_allclose(block, value, atol=1e-8)
        assert found.variances[own] == pytest.approx(variance, rel=1e-7)


def test_private_orders_that_are_left_out_change_nothing() -> None:
    views, near = _views("2")
    whole, pairs = LeastSquares(views, near, 3), LeastSquares(views, near, 2)
    assert set(pairs.values) == {own for own in whole.values if len(own) < 3}
    for own, value in pairs.values.items():
        np.testing.assert_allclose(value, whole.values[own], atol=1e-10)
        assert pairs.variances[own] == pytest.approx(whole.variances[own])


def test_tables_of_covariances_are_valid() -> None:
    features, random = Features((2, 3, 3)), np.random.default_rng(1)
    size = features.size
    means = np.zeros(size)
    products = random.normal(0, 0.3, (size, size))
    near = Near(features, means, products + products.T, np.full((size, size), 100.0))
    table = near.tables([(0, 1), (0, 2)])
    assert table.min() >= correlated.LEAST_EVEN / 6
    np.testing.assert_allclose(table.sum(axis=1), 1.0)


def _errors(plan: Plan, codes: NDArray[np.uint16], runs: int) -> tuple[Floats, Floats]:
    """Return errors of second and third moments of bits, over what is stated: (runs, 2) each."""
    features, d = Features((2,) * codes.shape[1]), codes.shape[1]
    signs = 1.0 - 2.0 * codes
    above = np.triu_indices(d, 1)
    exact = (signs.T @ signs / len(codes))[above]
    own, stated = [], []
    for seed in range(runs):
        found: Statistics = collect(plan, tallies_of(plan, codes, seed), features, 3)
        sets = list(found.higher)
        true = np.array([signs[:, list(s)].prod(axis=1).mean() for s in sets])
        value, precision = found.of(sets)
        own.append([np.square(found.products[above] - exact).sum(), np.square(value - true).sum()])
        stated.append([(1 / found.product_precision[above]).sum(), (1 / precision).sum()])
    return np.array(own), np.array(stated)


@pytest.mark.slow
def test_dependent_bits_gain_and_errors_are_those_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    d, users = 6, 1 << 15
    codes = chain(users, d, 3, keep=0.85)
    codes[codes.sum(axis=1) > 3] = 0  # lopsided
    plan = plan_for(domain_of(*[2] * d), "2", users, 3)
    own, stated = _errors(plan, codes, 60)
    np.testing.assert_allclose(own.mean(axis=0), stated.mean(axis=0), rtol=0.12)
    monkeypatch.setattr(correlated, "MOST_SHARED", 0)
    simple, _ = _errors(plan, codes, 60)
    gain = own / simple  # of the same tallies
    assert (gain.mean(axis=0) + 4 * gain.std(axis=0) / np.sqrt(len(gain)) < 1.0).all()


@pytest.mark.parametrize("limit", ["MOST_CELLS", "MOST_SHARED", "MOST_NOISE"])
def test_plans_beyond_a_limit_keep_the_simple_estimates(
    limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    views, near = _views("1")
    several = [view.mechanism for view in views if len(view.attributes) > 1]
    largest = {
        "MOST_CELLS": 24,
        "MOST_SHARED": 1 + 2 + 1 + 3 + 2 + 2 + 3,  # the attributes, (0, 1), (1, 2) and (2, 3)
        "MOST_NOISE": 1.001 * min(m.cells * cell_variance(m) for m in several),
    }
    monkeypatch.setattr(correlated, limit, largest[limit])
    assert correlated.fits(views, near.features, 3)
    monkeypatch.setattr(correlated, limit, 0.99 * largest[limit])
    assert not correlated.fits(views, near.features, 3)
    assert not correlated.fits(views[:2], near.features, 3)  # single attributes only
