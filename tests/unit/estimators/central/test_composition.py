"""Check the numerical composition from both sides, and the noise that it is about."""

from __future__ import annotations

from fractions import Fraction
from math import exp, sqrt

import numpy as np
import pytest

from benchmarks.accuracy.central import delta_bounds
from calmstream.estimators.central.accounting import allocate
from calmstream.estimators.central.composition import delta_at
from calmstream.estimators.central.discrete_gaussian import round_variance
from calmstream.estimators.central.noise import CountNoise
from calmstream.estimators.randomness import SeededRandomness


@pytest.mark.parametrize("levels", [1, 2, 3, 4])
@pytest.mark.parametrize("epsilon", ["0.5", "1", "2", "4", "8"])
def test_another_implementation_bounds_it_from_both_sides(levels: int, epsilon: str) -> None:
    spend = allocate(epsilon, "1e-6", levels, 1)
    numbers = float(spend.precision), levels, float(spend.quantile_epsilon)
    own = delta_at(float(epsilon), *numbers)
    low, high = delta_bounds(float(epsilon), *numbers)
    assert low <= own <= high
    assert high < 1.02 * low
    assert own == pytest.approx(5e-7, rel=1e-5)  # nothing is left unused


def test_without_the_quantiles_or_a_level_it_would_be_too_small() -> None:
    """Check that the bounds are narrow enough to notice a forgotten step."""
    spend = allocate("1", "1e-6", 3, 1)
    precision, each = float(spend.precision), float(spend.quantile_epsilon)
    low, _ = delta_bounds(1.0, precision, 3, each)
    assert delta_at(1.0, precision, 2, each) < low
    assert delta_at(1.0, precision * 2 / 3, 3, each) < low


def test_quantiles_alone_are_randomised_response() -> None:
    # Of two, delta at eps is P(both true) - exp(eps) P(both false).
    truth = exp(0.3) / (1 + exp(0.3))
    exact = truth**2 - exp(0.3) * (1 - truth) ** 2
    assert delta_at(0.3, 0.0, 2, 0.3) == pytest.approx(exact, rel=1e-12)
    assert delta_at(0.6, 0.0, 2, 0.3) < 1e-15


def shifted(noise: CountNoise, counts: int) -> np.ndarray:
    """Return the privacy losses and chances of a user with this number of counts."""
    variance, fine = float(noise.steps), noise.fine
    reach = int(40 * sqrt(variance)) // fine * fine
    steps = np.arange(-reach, reach + 1)
    weights = np.exp(-np.square(steps) / (2 * variance))
    loss = ((steps + fine) ** 2 - steps**2) / (2 * variance)
    chances = weights / weights.sum()
    losses, joint = loss, chances
    for _ in range(counts - 1):  # losses lie on a grid, so sums are a convolution
        joint = np.convolve(joint, chances)
        losses = np.linspace(losses[0] + loss[0], losses[-1] + loss[-1], len(joint))
    return np.stack([losses, joint])


@pytest.mark.parametrize("variance", ["0.2", "0.75", "3.1", "40", "5000"])
@pytest.mark.parametrize("counts", [1, 2, 5])
def test_noise_is_as_private_as_a_gaussian_of_its_variance(variance: str, counts: int) -> None:
    losses, chances = shifted(CountNoise(Fraction(variance)), counts)
    precision = counts / float(variance)
    for epsilon in np.linspace(0, 4, 41) * sqrt(precision) + precision / 2:
        true = float(chances @ np.maximum(0, -np.expm1(epsilon - losses)))
        assert true <= delta_at(epsilon, precision, 0, 0.0) * (1 + 1e-9)
        assert true >= delta_at(epsilon, precision, 0, 0.0) * 0.95


def test_integers_alone_are_not_as_private_as_a_gaussian() -> None:
    """Check that the lattice is needed: the discrete Gaussian of the same variance is worse."""
    variance = 0.75
    steps = np.arange(-60, 61)
    weights = np.exp(-np.square(steps) / (2 * variance))
    losses, chances = (2 * steps + 1) / (2 * variance), weights / weights.sum()
    worse = [
        float(chances @ np.maximum(0, -np.expm1(e - losses))) / delta_at(e, 1 / variance, 0, 0.0)
        for e in np.linspace(0, 6, 61)
    ]
    assert max(worse) > 1.1


@pytest.mark.parametrize("variance", ["0.5", "7.3", "5000"])
def test_drawn_noise_has_mean_zero_and_the_published_variance(variance: str) -> None:
    noise = CountNoise(Fraction(variance))
    drawn = noise.draw(200_000, SeededRandomness(5)).astype(float)
    published = float(noise.published)
    assert noise.published >= Fraction(variance)
    assert published < float(Fraction(variance)) * 1.001 + 1 / 12 + 3e-3
    assert abs(drawn.mean()) < 5 * sqrt(published / 200_000)
    assert drawn.var() == pytest.approx(published, rel=5 * sqrt(2 / 200_000))
    assert round_variance(noise.steps) == noise.steps
