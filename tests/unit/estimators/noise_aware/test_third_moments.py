"""Check relaxed maximum entropy and the third-order moments of the noise-aware method."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from calmstream.estimators.noise_aware.input.statistics import Statistics
from calmstream.estimators.noise_aware.models import relaxed
from calmstream.estimators.noise_aware.models import third_moments as third
from calmstream.estimators.noise_aware.models.horseshoe import gains
from calmstream.estimators.noise_aware.models.posterior import Posterior
from calmstream.estimators.noise_aware.tables.binary import BinaryTables
from calmstream.estimators.noise_aware.tables.intervals import INFLATION, half_width
from calmstream.estimators.numerics.hadamard import transform
from calmstream.estimators.numerics.subsets import sets_up_to

Floats = NDArray[np.float64]

EXACT = 1e12


def _mixture(d: int, seed: int, classes: int = 2) -> Floats:
    """Return a joint table in which a hidden class moves every attribute: third orders share it."""
    random = np.random.default_rng(seed)
    up = random.uniform(0.1, 0.9, (classes, d))
    cells = (np.arange(1 << d)[:, None] >> np.arange(d)[::-1]) & 1
    likely = np.where(cells[None] == 0, up[:, None], 1 - up[:, None]).prod(axis=2)
    return np.asarray(random.dirichlet(np.full(classes, 5.0)) @ likely, np.float64)


def _posterior(table: Floats, d: int, variance: float, draws: int = 40) -> Posterior:
    """Return the moments of a joint table, all known to one variance."""
    theta = transform(table)
    one = np.array([theta[1 << (d - 1 - i)] for i in range(d)])
    two = np.array(
        [[theta[(1 << (d - 1 - i)) ^ (1 << (d - 1 - j))] for j in range(d)] for i in range(d)]
    )
    random = np.random.default_rng(1)
    sd = np.sqrt(variance)
    drawn = two + sd * random.normal(size=(draws, d, d))
    return Posterior(
        one,
        np.full(d, variance),
        two,
        np.full((d, d), variance),
        0.01,
        one + sd * random.normal(size=(draws, d)),
        (drawn + drawn.transpose(0, 2, 1)) / 2,
    )


def _third_moments(table: Floats, d: int) -> dict[tuple[int, ...], float]:
    theta = transform(table)
    return {t: float(theta[sum(1 << (d - 1 - i) for i in t)]) for t in combinations(range(d), 3)}


def _statistics(d: int, higher: dict[tuple[int, ...], tuple[float, float]]) -> Statistics:
    flat, square = np.zeros(d), np.zeros((d, d))
    return Statistics(flat, flat, square, square, higher)


def _margin(table: Floats, d: int, attributes: tuple[int, ...]) -> Floats:
    others = tuple(i for i in range(d) if i not in attributes)
    return np.asarray(table.reshape((2,) * d).sum(axis=others), np.float64)


def test_exact_moments_give_back_their_table() -> None:
    table = _mixture(3, 1)
    sets = sets_up_to(3, 3)
    targets = transform(table)[sets.index]
    fitted = relaxed.fit(sets, targets[None], np.zeros((1, 7)))
    np.testing.assert_allclose(fitted.tables[0], table, atol=1e-5)


def test_impossible_moments_give_way_by_their_variances() -> None:
    sets = sets_up_to(3, 2)
    # Three attributes that each differ from both others cannot be.
    targets = np.array([[0.0, 0.0, 0.0, -0.9, -0.9, -0.9]])
    sure = np.array([[0.01, 0.01, 0.01, 0.001, 0.1, 0.1]])
    fitted = relaxed.fit(sets, targets, sure)
    assert (fitted.tables > 0).all()
    assert fitted.tables.sum() == pytest.approx(1.0)
    missed = np.abs(transform(fitted.tables)[0, sets.index[3:]] + 0.9)
    assert missed[0] < 0.05
    assert missed[1] > 0.2


def test_a_batch_is_its_members_one_by_one() -> None:
    random = np.random.default_rng(2)
    sets = sets_up_to(4, 2)
    targets = np.array([transform(_mixture(4, s))[sets.index] for s in range(3)])
    variances = random.uniform(0.001, 0.1, targets.shape)
    all_at_once = relaxed.fit(sets, targets, variances).tables
    for n in range(3):
        alone = relaxed.fit(sets, targets[n : n + 1], variances[n : n + 1]).tables[0]
        np.testing.assert_allclose(all_at_once[n], alone, atol=1e-5)


def test_changed_targets_have_the_tables_of_new_fits() -> None:
    sets = sets_up_to(3, 2)
    targets = transform(_mixture(3, 3))[sets.index][None]
    variances = np.full(targets.shape, 0.01)
    fitted = relaxed.fit(sets, targets, variances)
    changes = 0.1 * np.random.default_rng(3).normal(size=(5, targets.size))
    again = fitted.again(changes)
    for change, table in zip(changes, again, strict=True):
        alone = relaxed.fit(sets, targets + change, variances).tables[0]
        np.testing.assert_allclose(table, alone, atol=1e-3)
        assert np.abs(table - fitted.tables[0]).max() > 0.005


def test_tables_of_changes_far_beyond_what_a_table_can_be_are_tables() -> None:
    sets = sets_up_to(4, 2)
    table = np.full(16, 0.001)
    table[0] = 0.985  # nearly all cells are nearly empty
    targets = transform(table)[sets.index][None]
    fitted = relaxed.fit(sets, targets, np.full(targets.shape, 1e-4))
    again = fitted.again(0.3 * np.random.default_rng(4).normal(size=(20, targets.size)))
    assert (again >= 0).all()
    np.testing.assert_allclose(again.sum(axis=1), 1.0)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(3, 6), st.sampled_from([0.0, 1e-4, 0.3]))
def test_tables_are_valid_for_any_targets(seed: int, k: int, variance: float) -> None:
    random = np.random.default_rng(seed)
    sets = sets_up_to(k, 3)
    targets = random.uniform(-1, 1, (2, sets.index.size))
    tables = relaxed.fit(sets, targets, np.full(targets.shape, variance)).tables
    assert np.isfinite(tables).all()
    assert (tables >= 0).all()
    np.testing.assert_allclose(tables.sum(axis=1), 1.0)


def test_exact_statistics_give_back_triples_of_lone_interactions() -> None:
    d = 5
    table = np.full(1 << d, 1 / (1 << d))
    signs = transform(np.eye(1 << d))[0b11100]
    table = table * (1 + 0.5 * signs)  # only attributes 0, 1 and 2 interact, all three at once
    post = _posterior(table, d, 1e-12)
    truth = _third_moments(table, d)
    fitted = third.fit(_statistics(d, {t: (v, EXACT) for t, v in truth.items()}), post)
    assert fitted is not None
    reached = fitted.triples.predicted + fitted.shift
    np.testing.assert_allclose(reached, list(truth.values()), atol=1e-3)
    answer, _ = BinaryTables(post, fitted, INFLATION).answer((0, 1, 2))
    np.testing.assert_allclose(answer, _margin(table, d, (0, 1, 2)), atol=1e-3)


def test_exact_statistics_give_back_every_triple_of_a_mixture() -> None:
    d = 7
    table = _mixture(d, 5)
    post = _posterior(table, d, 1e-12)
    higher = {t: (v, EXACT) for t, v in _third_moments(table, d).items()}
    fitted = third.fit(_statistics(d, higher), post)
    assert fitted is not None
    tables = BinaryTables(post, fitted, INFLATION)
    for attributes in combinations(range(d), 3):
        answer, _ = tables.answer(attributes)
        np.testing.assert_allclose(answer, _margin(table, d, attributes), atol=2e-3)


def test_common_causes_predict_triples_without_reports() -> None:
    d = 10
    table = _mixture(d, 6)
    post = _posterior(table, d, 1e-8)
    truth = _third_moments(table, d)
    measured = dict(list(truth.items())[::2])
    fitted = third.fit(_statistics(d, {t: (v, 1e6) for t, v in measured.items()}), post)
    assert fitted is not None
    rest = [n for n, t in enumerate(truth) if t not in measured]
    true = np.array(list(truth.values()))
    predicted = np.square(true - fitted.triples.predicted)[rest].sum()
    reached = np.square(true - fitted.triples.predicted - fitted.shift)[rest].sum()
    assert reached < 0.1 * predicted


def test_residuals_of_zero_and_noise_leave_the_answer_of_the_pairs() -> None:
    d = 8
    table = _mixture(d, 7)
    post = _posterior(table, d, 1e-6)
    predicted = third.predict(post).predicted
    noise = 0.3 * np.random.default_rng(8).normal(size=predicted.size)
    pairs, _ = BinaryTables(post, None, INFLATION).answer((0, 2, 4, 5))
    for scale, precision in ((0.0, 1e4), (1.0, 1 / 0.09)):
        higher = {
            t: (float(p + scale * e), precision)
            for t, p, e in zip(combinations(range(d), 3), predicted, noise, strict=True)
        }
        fitted = third.fit(_statistics(d, higher), post)
        answer, _ = BinaryTables(post, fitted, INFLATION).answer((0, 2, 4, 5))
        np.testing.assert_allclose(answer, pairs, atol=3e-3)


def test_no_views_of_three_no_third_order() -> None:
    post = _posterior(_mixture(4, 9), 4, 1e-4)
    assert third.fit(_statistics(4, {}), post) is None
    answer, drawn = BinaryTables(post, None, INFLATION).answer((0, 1, 3))
    assert answer.sum() == pytest.approx(1.0)
    assert (drawn >= 0).all()
    assert (drawn.std(axis=0) > 0).all()


def test_the_part_that_no_report_covers_widens_intervals() -> None:
    post = _posterior(_mixture(6, 10), 6, 1e-6)
    one, narrow = BinaryTables(replace(post, residual=0.0), None, INFLATION).answer((0, 1, 2, 3))
    two, wide = BinaryTables(replace(post, residual=0.2), None, INFLATION).answer((0, 1, 2, 3))
    np.testing.assert_array_equal(one, two)
    assert (half_width(two.ravel(), wide) > 1.5 * half_width(one.ravel(), narrow)).mean() > 0.8


def test_deviations_of_moments_are_widened_before_tables_are_made() -> None:
    post = _posterior(_mixture(6, 10), 6, 1e-4)
    random = np.random.default_rng(11)
    drawn = post.means + 0.003 * random.normal(size=(40, 6))
    products = np.broadcast_to(post.products, (40, 6, 6))
    post = replace(post, drawn_means=drawn, drawn_products=products, residual=0.0)
    _, tables = BinaryTables(post, None, INFLATION).answer((0, 1, 2))
    one = tables.reshape(40, 2, 2, 2).sum(axis=(2, 3))
    shares = np.stack([1.0 + drawn[:, 0], 1.0 - drawn[:, 0]], axis=1) / 2.0
    assert one.std(axis=0) == pytest.approx(INFLATION * shares.std(axis=0), rel=0.1)


def _gain_if_there_is_an_effect(effect: float, variance: float, size: float) -> tuple[float, float]:
    """Integrate the gain of one effect over both grids; also return the evidence of an effect."""
    scales = np.exp(np.linspace(np.log(0.001), np.log(1.5), 28))
    ratios = np.exp(np.linspace(np.log(0.1), np.log(10.0), 9))
    kappa = ratios / (1.0 + np.square(ratios))
    prior = np.exp(-0.5 * np.square(scales / size))
    weight = np.outer(prior / prior.sum(), kappa / kappa.sum())
    square = np.square(np.outer(scales, ratios))
    weight *= np.exp(-0.5 * effect**2 / (square + variance)) / np.sqrt(square + variance)
    gain = float((weight * square / (square + variance)).sum() / weight.sum())
    return gain, float(weight.sum())


@pytest.mark.parametrize("effect", [0.0, 0.1, 0.3, 1.0])
def test_no_effect_at_all_is_as_likely_beforehand_as_some_effect(effect: float) -> None:
    variance, size = 0.01, 0.1
    some, evidence = _gain_if_there_is_an_effect(effect, variance, size)
    none = np.exp(-0.5 * effect**2 / variance) / np.sqrt(variance)
    found, _ = gains(np.array([effect]), np.array([variance]), size)
    assert found[0] == pytest.approx(some * evidence / (evidence + none))
