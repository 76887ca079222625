"""Check the smooth margin against dense linear algebra, sums over a grid, and known densities."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from calmstream.estimators.noise_aware.input.ordered import Levels, MarginEstimate
from calmstream.estimators.noise_aware.models import smooth_margin
from calmstream.estimators.noise_aware.models.smooth_margin import Mode, _Problem, second_order
from tests.support.noise_aware import plain_levels

Floats = np.ndarray


def estimated(table: Floats, deviation: float) -> MarginEstimate:
    size = table.size
    near = np.full(size, 1.0 / size)
    return MarginEstimate(table, np.eye(size) / deviation**2, near)


def fitted(
    estimate: MarginEstimate, levels: Levels, random: np.random.Generator
) -> smooth_margin.SmoothMargin:
    found = smooth_margin.Candidates(estimate, levels)
    return found.posterior(np.ones(found.evidence.size), random)


def noisy(truth: Floats, deviation: float, seed: int) -> MarginEstimate:
    random = np.random.default_rng(seed)
    return estimated(truth + deviation * random.normal(size=truth.size), deviation)


def test_a_walk_of_second_order_has_independent_second_differences() -> None:
    for size in (3, 10, 64, 256):
        slope, walk = second_order(size)
        differences = np.diff(np.eye(size), n=2, axis=0)
        moved = differences @ walk @ differences.T
        np.testing.assert_allclose(moved, moved[0, 0] * np.eye(size - 2), atol=1e-6 * moved[0, 0])
        np.testing.assert_allclose(walk @ np.stack([np.ones(size), slope], axis=1), 0.0, atol=1e-5)
        assert np.trace(walk) == pytest.approx(size)
        assert np.square(slope).mean() == pytest.approx(1.0)


def small_roots(size: int) -> tuple[Floats, Floats]:
    """Two roots of covariances that are so small that p is linear in f."""
    _, walk = second_order(size)
    rough = np.eye(size)
    return (
        0.01 * np.linalg.cholesky(walk + 0.1 * rough),
        0.003 * np.linalg.cholesky(walk + 2.0 * rough),
    )


def dense(estimate: MarginEstimate, root: Floats) -> tuple[Floats, Floats, float]:
    """Condition p, linear in f at the even table, on the estimate; return its log density too."""
    size = len(root)
    even = np.full(size, 1.0 / size)
    slopes = np.diag(even) - np.outer(even, even)
    prior = slopes @ root @ root.T @ slopes
    total = prior + np.linalg.inv(estimate.precision)
    gain = np.linalg.solve(total, prior).T
    away = estimate.table - even
    likely = -0.5 * (away @ np.linalg.solve(total, away) + np.linalg.slogdet(total)[1])
    return even + gain @ away, prior - gain @ prior, float(likely)


def test_small_log_densities_are_conditioned_as_normal_variables() -> None:
    size = 12
    estimate = noisy(np.full(size, 1.0 / size), 4e-4, 5)
    problem = _Problem(estimate, plain_levels(size))
    first, second = (problem.mode(root, None) for root in small_roots(size))
    found = []
    for mode, root in zip((first, second), small_roots(size), strict=True):
        mean, _, likely = dense(estimate, root)
        moved = np.linalg.norm(mean - 1.0 / size)
        at_mode = problem.tables(mode.root @ mode.z)
        assert np.linalg.norm(at_mode - mean) < 0.02 * moved
        found.append(likely)
    assert found[0] != pytest.approx(found[1], abs=0.5)
    assert first.evidence - second.evidence == pytest.approx(found[0] - found[1], abs=0.05)


def test_draws_of_small_log_densities_have_the_conditional_covariance() -> None:
    size = 12
    estimate = noisy(np.full(size, 1.0 / size), 4e-4, 6)
    problem = _Problem(estimate, plain_levels(size))
    root = small_roots(size)[0]
    mean, covariance, _ = dense(estimate, root)
    mode = problem.mode(root, None)
    random = np.random.default_rng(7)
    samples = [problem.sample([mode], np.ones(1), random) for _ in range(25)]
    drawn = np.concatenate([sample.draws for sample in samples])
    trace = float(np.trace(covariance))
    assert np.square(drawn - mean).sum(axis=1).mean() == pytest.approx(trace, rel=0.12)
    far = np.linalg.norm(np.mean([sample.mean for sample in samples], axis=0) - mean)
    assert far < 0.1 * np.sqrt(trace)


def test_the_posterior_mean_of_wide_log_densities_is_that_of_a_sum_over_a_grid() -> None:
    root = np.array([[2.0, 0.0, 0.0], [1.0, 1.5, 0.0], [-0.5, 0.5, 2.0]])
    estimate = estimated(np.array([0.9, 0.25, -0.1]), 0.25)  # far from what any table has
    problem = _Problem(estimate, replace(plain_levels(3), offset=np.array([0.3, 0.0, -0.3])))
    grid = np.array(list(product(np.linspace(-5.0, 5.0, 51), repeat=3)))
    tables = problem.tables(grid @ root.T)
    weight = np.exp(-problem.energy(grid, tables))
    expected = weight @ tables / weight.sum()
    spread = np.sqrt(weight @ np.square(tables - expected) / weight.sum())
    mode = problem.mode(root, None)
    random = np.random.default_rng(8)
    found = np.mean([problem.sample([mode], np.ones(1), random).mean for _ in range(20)], axis=0)
    np.testing.assert_array_less(np.abs(found - expected), 0.06 * spread)
    # The mode alone is something else, so accepting and rejecting matters.
    at_mode = problem.tables(mode.root @ mode.z)
    assert np.abs((at_mode - expected) / spread).max() > 0.2


def bell(size: int) -> Floats:
    places = np.linspace(-2.0, 2.5, size)
    table = np.exp(-np.square(places) / 2.0)
    return np.asarray(table / table.sum())


def test_a_smooth_margin_has_a_fraction_of_the_noise_and_honest_draws() -> None:
    truth, deviation = bell(64), 0.008
    inside, ratios = [], []
    for seed in range(4):
        estimate = noisy(truth, deviation, seed)
        found = fitted(estimate, plain_levels(64), np.random.default_rng(seed))
        assert found.mean.sum() == pytest.approx(1.0)
        ratios.append(np.square(found.mean - truth).sum() / (64 * deviation**2))
        inside.append(np.abs(found.mean - truth) <= 1.96 * found.draws.std(axis=0))
    assert np.mean(ratios) < 0.2
    assert np.mean(inside) > 0.85


def test_a_heaped_level_is_found_and_leaves_its_neighbours_smooth() -> None:
    truth = 0.7 * bell(64)
    truth[40] += 0.3
    truth /= truth.sum()
    estimate = noisy(truth, 0.01, 3)
    found = fitted(estimate, plain_levels(64), np.random.default_rng(1))
    assert abs(found.mean[40] - truth[40]) < 0.03
    near = np.arange(34, 47) != 40
    np.testing.assert_allclose(found.mean[34:47][near], truth[34:47][near], atol=0.008)


def test_only_spikes_that_raise_the_evidence_are_added() -> None:
    problem = _Problem(noisy(bell(64), 0.004, 2), plain_levels(64))
    none = np.zeros(64, bool)
    scales = (1.5, 0.02)
    mode: Mode = problem.mode(problem.root(*scales, none), None)
    assert not problem.add_spikes(scales, none, mode)[0].any()
    truth = bell(64)
    truth[[10, 50]] += 0.1
    problem = _Problem(noisy(truth / truth.sum(), 0.004, 2), plain_levels(64))
    mode = problem.mode(problem.root(*scales, none), None)
    spikes, better = problem.add_spikes(scales, none, mode)
    assert np.flatnonzero(spikes).tolist() == [10, 50]
    assert better.evidence > mode.evidence


@pytest.mark.parametrize("table", [np.zeros(9), np.full(9, 5.0), np.eye(9)[0] * 40.0])
@pytest.mark.parametrize("deviation", [1e-6, 1.0, 1e3])
def test_estimates_far_from_any_table_give_a_table(table: Floats, deviation: float) -> None:
    estimate = estimated(table, deviation)
    found = fitted(estimate, plain_levels(9), np.random.default_rng(1))
    assert np.isfinite(found.mean).all()
    assert (found.mean >= 0.0).all()
    assert found.mean.sum() == pytest.approx(1.0)


def test_the_common_prior_is_the_posterior_mean_of_shares() -> None:
    evidence = np.random.default_rng(5).normal(size=(7, 30)) * 3.0
    prior = smooth_margin.common_prior(evidence)
    weight = prior * np.exp(evidence)
    known = (weight / weight.sum(axis=1, keepdims=True)).sum(axis=0)
    expected = (smooth_margin.COMMON / 30 + known) / (smooth_margin.COMMON + 7)
    np.testing.assert_allclose(prior, expected, atol=1e-3)
    assert prior.sum() == pytest.approx(1.0)


def test_margins_that_are_alike_tell_what_is_usual() -> None:
    clear = np.zeros((8, 30))
    clear[:, 4] = 2.0  # each alone gives the fifth pair of scales a fifth of the weight
    prior = smooth_margin.common_prior(clear)
    assert prior[4] > 0.6
    np.testing.assert_allclose(smooth_margin.common_prior(np.zeros((8, 30))), 1.0 / 30)


def test_even_levels_have_less_error_where_other_margins_are_even() -> None:
    even, deviation = np.full(8, 0.125), 0.05
    estimates = [noisy(even, deviation, seed) for seed in range(12)]
    found = [smooth_margin.Candidates(estimate, plain_levels(8)) for estimate in estimates]
    together = smooth_margin.common_prior(np.stack([one.evidence for one in found]))
    errors = []
    for prior in (np.ones(together.size), together):
        means = [one.posterior(prior, np.random.default_rng(1)).mean for one in found]
        errors.append(np.square(np.array(means) - even).sum())
    assert errors[1] < 0.6 * errors[0]
    assert errors[1] < 0.1 * 12 * 8 * deviation**2
