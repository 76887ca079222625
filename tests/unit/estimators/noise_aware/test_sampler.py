"""Check the sampler: its posterior against the prior's own draws, and absence of dependence."""

from __future__ import annotations

import numpy as np
import pytest

from calmstream.estimators.noise_aware.density import State, states_of
from calmstream.estimators.noise_aware.layout import SCALES, WIDE, Layout
from calmstream.estimators.noise_aware.priors import log_size
from calmstream.estimators.noise_aware.residuals import GRID, RATIOS, half_normal
from calmstream.estimators.noise_aware.sampler import Effort, Sampler
from calmstream.estimators.noise_aware.statistics import Statistics, Targets
from tests.support.noise_aware import domain_of
from tests.support.repeats import repeats

BITS, CAUSES, REPEATS = 4, 2, repeats(40, 500)
KNOWN, LITTLE = 200.0, 6.0  # precisions


def _pick(random: np.random.Generator, grid: np.ndarray, log_weight: np.ndarray) -> float:
    weight = np.exp(log_weight - log_weight.max())
    return float(random.choice(grid, p=weight / weight.sum()))


def _moments_of_the_prior(random: np.random.Generator) -> tuple[np.ndarray, ...]:
    scale = _pick(random, SCALES, -0.5 * np.square(np.log(SCALES / 0.5)))
    fields = np.clip(random.normal(), -3, 3) + scale * random.standard_t(6.0, size=BITS)
    loadings = np.zeros((CAUSES, BITS))
    for q in range(CAUSES):
        alpha = _pick(random, SCALES, log_size(SCALES))
        kappa = np.sqrt(0.5 / random.gamma(0.5, size=BITS))
        loadings[q] = alpha * (random.normal() * WIDE + kappa * random.normal(size=BITS))
    share = 1.0 / (1.0 + np.exp(-WIDE * random.normal(size=CAUSES)))
    states = states_of(CAUSES)
    weights = np.prod(np.where(states > 0, share, 1.0 - share), axis=1)
    signs = np.tanh(fields + (states - share) @ loadings)
    first, second = weights @ signs, (weights[:, None] * signs).T @ signs
    tau = _pick(random, GRID, half_normal(2))
    weight = RATIOS / (1 + RATIOS**2)
    kappa = random.choice(RATIOS, p=weight / weight.sum(), size=(BITS, BITS))
    spread = 1.0 - np.square(first)
    return first, second, tau * kappa * np.outer(spread, spread)


def _drawn_from_the_prior(
    random: np.random.Generator, known: float = KNOWN
) -> tuple[Statistics, float, float]:
    """Return noisy statistics of drawn causes and residuals, with a mean and a second moment."""
    first, second, deviation = _moments_of_the_prior(random)
    residual = deviation * random.normal(size=(BITS, BITS))
    products = np.triu(second + residual + random.normal(size=(BITS, BITS)) / np.sqrt(known), 1)
    apart = known * (1.0 - np.eye(BITS))
    means = first + random.normal(size=BITS) / np.sqrt(known)
    found = Statistics(means, np.full(BITS, known), products + products.T, apart, {})
    return found, float(first[0]), float(second[0, 1])


def _sample(statistics: Statistics, seed: int, length: int = 1) -> tuple[np.ndarray, np.ndarray]:
    layout = Layout((2,) * BITS)
    targets = Targets(layout, statistics)
    effort = Effort(3, CAUSES, 60 * length, 80 * length, 24 * length, seed)
    draws = Sampler(domain_of(*(2,) * BITS), targets, effort).run()
    signs = np.stack([share[:, :, 0] - share[:, :, 1] for share in draws.share], axis=2)
    first = np.einsum("dn,dn->d", draws.weights, signs[:, :, 0])
    return first, np.einsum("dn,dn->d", draws.weights, signs[:, :, 0] * signs[:, :, 1])


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_ranks_of_the_truth_among_draws_are_uniform() -> None:
    """Simulation-based calibration; chains are short, so ranks fall into five wide classes."""
    random = np.random.default_rng(3)
    ranks = np.zeros((REPEATS, 2))
    for repeat in range(REPEATS):
        statistics, *true = _drawn_from_the_prior(random)
        for place, drawn in enumerate(_sample(statistics, repeat)):
            ranks[repeat, place] = (drawn < true[place]).mean()
    for column in ranks.T:
        count = np.histogram(column, bins=5, range=(0.0, 1.0 + 1e-9))[0]
        excess = (np.square(count - REPEATS / 5) / (REPEATS / 5)).sum()
        assert excess < 33.4, count  # chi square of 4 degrees of freedom at alpha = 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_posteriors_are_those_of_weighted_draws_of_the_prior(seed: int) -> None:
    random = np.random.default_rng(seed)
    statistics, _, _ = _drawn_from_the_prior(random, LITTLE)
    above = np.triu_indices(BITS, 1)
    moments, scores = [], []
    for _ in range(40_000):
        first, second, deviation = _moments_of_the_prior(random)
        total = 1.0 / LITTLE + np.square(deviation[above])
        gap = np.square(statistics.products - second)[above] / total
        own = LITTLE * np.square(statistics.means - first).sum()
        scores.append(-0.5 * (own + gap.sum() + np.log(total).sum()))
        moments.append((first[0], second[0, 1]))
    weight = np.exp(np.array(scores) - max(scores))
    weight /= weight.sum()
    assert 1.0 / np.square(weight).sum() > 300.0  # so many draws would say as much
    drawn = _sample(statistics, seed, 16)
    for found, wanted in zip(drawn, np.array(moments).T, strict=True):
        mean = weight @ wanted
        deviation = np.sqrt(weight @ np.square(wanted - mean))
        assert abs(found.mean() - mean) < 0.3 * deviation
        assert found.std() == pytest.approx(deviation, rel=0.25)


def test_moves_leave_a_state_that_is_refused_as_it_was() -> None:
    statistics, _, _ = _drawn_from_the_prior(np.random.default_rng(1))
    layout = Layout((2,) * BITS)
    targets = Targets(layout, statistics)
    sampler = Sampler(domain_of(*(2,) * BITS), targets, Effort(chains=2, causes=CAUSES))
    sampler.state = sampler._white.measure(sampler.problem, sampler.state)
    before = State(*(part.copy() for part in sampler.state))
    with np.errstate(all="ignore"):
        _, chance = sampler._move(100.0)  # no such step is taken
    assert chance < 1e-6
    for part, old in zip(sampler.state, before, strict=True):
        np.testing.assert_array_equal(part, old)
