"""Check that standard errors grow where fitted moments are farther from the statistics than stated.

`excess_ratio` is compared with linear shrinkage of drawn values, whose true error is known.
"""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest

from calmstream.estimators.methods.noise_aware import NoiseAware
from calmstream.estimators.noise_aware.input.features import Features
from calmstream.estimators.noise_aware.input.statistics import Statistics
from calmstream.estimators.noise_aware.model import NoiseAwareModel
from calmstream.estimators.noise_aware.tables.misfit import Fitted, Misfit, excess_ratio, measure
from calmstream.estimators.noise_aware.tables.mixed import MixedTables
from tests.support.noise_aware import chain, domain_of, plan_for, tallies_of

NOISE, GAIN = 0.04, 0.3


def _shrunk(size: int, deviation: float, seed: int) -> tuple[Fitted, np.ndarray, np.ndarray]:
    """Return values shrunk by a prior of a known deviation, the truth and the statistics.

    The prior deviation is the one with which `GAIN` is right.
    """
    random = np.random.default_rng(seed)
    truth = deviation * random.normal(size=size)
    estimates = truth + sqrt(NOISE) * random.normal(size=size)
    variance = np.full(size, GAIN * NOISE)
    return Fitted(GAIN * estimates, variance, variance), truth, estimates


def _ratio(fitted: Fitted, estimates: np.ndarray) -> float:
    ones = np.ones(estimates.size)
    return excess_ratio(fitted, estimates, ones / NOISE, ones)


def test_a_right_prior_is_not_corrected() -> None:
    right = sqrt(GAIN / (1.0 - GAIN) * NOISE)
    fitted, _, estimates = _shrunk(100_000, right, 1)
    assert _ratio(fitted, estimates) == pytest.approx(1.0, abs=0.03)


@pytest.mark.parametrize("times", [2.0, 4.0])
def test_the_ratio_is_that_of_the_true_error_where_the_prior_is_wrong(times: float) -> None:
    right = sqrt(GAIN / (1.0 - GAIN) * NOISE)
    fitted, truth, estimates = _shrunk(100_000, times * right, 2)
    true = np.square(fitted.values - truth).sum() / fitted.stated.sum()
    assert true > 1.5
    assert _ratio(fitted, estimates) == pytest.approx(true, rel=0.02)


def test_no_ratio_is_below_one() -> None:
    fitted, _, estimates = _shrunk(10_000, 0.0, 3)
    assert _ratio(fitted, estimates) == 1.0


def test_a_few_noisy_values_correct_little() -> None:
    right = sqrt(GAIN / (1.0 - GAIN) * NOISE)
    fitted, _, estimates = _shrunk(8000, 4.0 * right, 4)
    many = _ratio(fitted, estimates)
    found = []
    for seed in range(400):
        fitted, _, estimates = _shrunk(8, 4.0 * right, seed)
        found.append(_ratio(fitted, estimates))
    assert 1.0 < float(np.mean(found)) < 0.8 * many


def test_features_of_categories_count_their_free_directions_only() -> None:
    random, r = np.random.default_rng(5), 4
    basis = np.linalg.svd(np.eye(r) - 1.0 / r)[0][:, : r - 1]  # orthonormal, columns of sum 0
    # Seven attributes, one a row, in coordinates without redundancy.
    estimates, values = random.normal(size=(2, 7, r - 1))
    variance = np.full(values.shape, 0.2)
    free = np.full(values.size, 1.0)
    flat = Fitted(values.ravel(), variance.ravel(), 1.5 * variance.ravel())
    expected = excess_ratio(flat, estimates.ravel(), free, free)
    assert expected > 1.0
    share = (r - 1) / r  # the variance of a feature in units of a free direction's
    features = np.full((7, r), share)
    redundant = Fitted((values @ basis.T).ravel(), 0.2 * features.ravel(), 0.3 * features.ravel())
    found = excess_ratio(
        redundant, (estimates @ basis.T).ravel(), np.ones(features.size), features.ravel()
    )
    assert found == pytest.approx(expected, rel=1e-12)


def test_a_factor_weighs_both_orders_by_what_is_stated() -> None:
    pairs = np.array([[9.0, 0.5, 0.0], [0.5, 9.0, 2.0], [0.0, 2.0, 9.0]])
    everything = Misfit((3.0, 2.0), np.array([1.0, 0.5, 4.0]), pairs, np.array([True] * 3))
    assert everything.factor((0,)) == pytest.approx(sqrt(3.0))
    assert everything.factor((0, 1)) == pytest.approx(sqrt((3.0 * 1.5 + 2.0 * 0.5) / 2.0))
    assert everything.factor((0, 1, 2)) == pytest.approx(sqrt((3.0 * 5.5 + 2.0 * 2.5) / 8.0))
    some = Misfit((3.0, 2.0), everything.means, pairs, np.array([True, False, True]))
    assert some.factor((1,)) == 1.0
    assert some.factor((0, 1)) == pytest.approx(sqrt((3.0 * 1.0 + 0.5 + 0.5) / 2.0))
    nothing = Misfit((3.0, 2.0), np.zeros(3), np.zeros((3, 3)), np.array([True] * 3))
    assert nothing.factor((0, 1)) == 1.0


def test_moments_without_statistics_and_attributes_left_out_are_not_judged() -> None:
    features = Features((2, 2))
    away = Fitted(np.array([0.5, 0.5]), np.zeros(2), np.full(2, 1e-4))
    products = Fitted(np.zeros((2, 2)), np.zeros((2, 2)), np.full((2, 2), 1e-4))

    def ratio(precision: tuple[float, float], left_out: tuple[int, ...] = ()) -> float:
        none = np.zeros((2, 2))
        statistics = Statistics(np.zeros(2), np.array(precision), none, none, {})
        return measure((away, products), statistics, features, left_out).ratios[0]

    assert ratio((1e4, 1e4)) > 10.0
    assert ratio((0.0, 0.0)) == 1.0
    assert ratio((1e4, 0.0), (0,)) == 1.0
    assert ratio((1e4, 0.0), (1,)) > 10.0


def test_mixed_moments_are_those_of_the_tables() -> None:
    codes = chain(20_000, 4, 6, keep=0.6)
    plan = plan_for(domain_of(2, 2, 2, 2), "1", 20_000, 2)
    model = NoiseAware().fit(plan, tallies_of(plan, codes, 7))
    assert isinstance(model.fitted, MixedTables)
    model._misfit = None
    means, products = model.fitted.moments()
    for i in range(4):
        single = model.marginal((i,))
        assert single.table[0] - single.table[1] == pytest.approx(means.values[i], abs=1e-6)
        # The table's variance is that of 40 draws, which has a relative deviation of 0.23.
        assert 4.0 * single.stderr[0] ** 2 == pytest.approx(means.stated[i], rel=0.5)
    for i, j in ((0, 1), (1, 3), (0, 3)):
        table = model.marginal((i, j)).table
        product = table[0] + table[3] - table[1] - table[2]
        assert product == pytest.approx(products.values[i, j], abs=1e-6)
        assert products.values[i, j] == products.values[j, i]


@pytest.mark.slow
def test_margins_that_pairs_pull_from_the_truth_are_covered() -> None:
    # At most one of eight options, half of the bits inverted: no trait gives such correlations, so
    # they are shrunk, and the pairs pull the margins away.
    d, users = 8, 100_000
    plan = plan_for(domain_of(*[2] * d), "1", users, 2)
    z, factors = [], []
    for seed in range(4):
        chosen = np.random.default_rng(seed).integers(10, size=users)
        codes = ((chosen[:, None] == np.arange(d)) ^ (np.arange(d) % 2 == 0)).astype(np.uint16)
        model = NoiseAware().fit(plan, tallies_of(plan, codes, seed))
        for i, share in enumerate(codes.mean(axis=0)):
            answer = model.marginal((i,))
            z.append((answer.table[1] - share) / answer.stderr[1])
            factors.append(_factor(model, i))
    corrected, before = np.abs(z), np.abs(z) * factors
    assert np.square(before).mean() > 2.0
    assert np.square(corrected).mean() < 1.7
    assert (before < 1.96).mean() < 0.8
    assert (corrected < 1.96).mean() > 0.83


def _factor(model: NoiseAwareModel, i: int) -> float:
    """Return by how much the correction multiplies the standard error of attribute i."""
    assert model._misfit is not None
    return model._misfit.factor((i,))
