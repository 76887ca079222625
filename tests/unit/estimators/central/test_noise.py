from __future__ import annotations

from fractions import Fraction
from math import exp

import numpy as np
import pytest
from scipy.stats import chi2

from calmstream.common.errors import PlanError
from calmstream.estimators.central import discrete_gaussian as module
from calmstream.estimators.central.discrete_gaussian import (
    MAX_VARIANCE,
    _accept,
    bernoulli_exp,
    discrete_gaussian,
    discrete_laplace,
    round_variance,
)
from calmstream.estimators.central.quantile import private_quantile
from calmstream.estimators.randomness import SeededRandomness

ALPHA = 1e-6


def p_value(observed: np.ndarray, expected: np.ndarray) -> float:
    rare = expected < 5
    observed = np.append(observed[~rare], observed[rare].sum())
    expected = np.append(expected[~rare], expected[rare].sum())
    kept = expected > 1e-9
    assert not observed[~kept].any()
    if kept.sum() == 1:
        return 1.0
    statistic = (np.square(observed - expected)[kept] / expected[kept]).sum()
    return float(chi2.sf(statistic, kept.sum() - 1))


def check_coins(tossed: np.ndarray, odds: float) -> None:
    n, heads = len(tossed), tossed.sum()
    assert p_value(np.array([heads, n - heads]), np.array([n * odds, n * (1 - odds)])) > ALPHA


@pytest.mark.parametrize(
    "gamma", [Fraction(0), Fraction(1, 3), Fraction(1), Fraction(5, 2), Fraction(123456, 10007)]
)
def test_coins_have_odds_exp_minus_gamma(gamma: Fraction) -> None:
    n = 40_000
    whole, part = (np.full(n, x) for x in divmod(gamma.numerator, gamma.denominator))
    check_coins(bernoulli_exp(whole, part, gamma.denominator, SeededRandomness(1)), exp(-gamma))


@pytest.mark.parametrize("scale", [1, 7])
def test_the_discrete_laplace_law(scale: int) -> None:
    n = 50_000
    drawn = discrete_laplace(scale, n, SeededRandomness(3))
    x = np.arange(-40 * scale, 40 * scale + 1)
    weights = np.exp(-np.abs(x) / scale)
    observed = np.bincount(drawn + 40 * scale, minlength=len(x))
    assert p_value(observed, n * weights / weights.sum()) > ALPHA


@pytest.mark.parametrize("wanted", ["0.01", "0.3", "1", "2.7", "90.25", "2500"])
def test_the_discrete_gaussian_law(wanted: str) -> None:
    variance = round_variance(Fraction(wanted))
    n = 60_000
    drawn = discrete_gaussian(variance, n, SeededRandomness(4))
    reach = int(12 * float(variance) ** 0.5) + 3
    x = np.arange(-reach, reach + 1)
    weights = np.exp(-np.square(x) / (2 * float(variance)))
    observed = np.bincount(drawn + reach, minlength=len(x))
    assert p_value(observed, n * weights / weights.sum()) > ALPHA


def test_far_proposals_are_decided_by_integers_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    # Beyond 63 bits: exp(-huge) never, and the arithmetic does not wrap around into a maybe.
    far = np.array([1 << 62, -(1 << 62)])
    assert not _accept(far, 5, 2, 2, SeededRandomness(5)).any()
    # Their true odds, where they are not hopeless: the limit is lowered instead.
    monkeypatch.setattr(module, "_LARGEST_ROOT", 0)
    accepted = _accept(np.full(40_000, 7), 40, 2, 5, SeededRandomness(6))
    check_coins(accepted, exp(-((7 - 20 / 5) ** 2) / (2 * 20)))


@pytest.mark.parametrize("wanted", ["0.001", "0.7", "3", "1000.5", "40000.1", "268435456"])
def test_variances_are_rounded_up_by_a_hair(wanted: str) -> None:
    exact = Fraction(wanted)
    rounded = round_variance(exact)
    assert round_variance(rounded) == rounded
    assert 0 <= rounded - exact < Fraction(2, 1 << 24) * (float(exact) ** 0.5 + 1) ** 2 + 1e-12
    assert discrete_gaussian(rounded, 3, SeededRandomness(6)).shape == (3,)


@pytest.mark.parametrize("wanted", [Fraction(0), Fraction(-1), Fraction(MAX_VARIANCE) + 1])
def test_impossible_variances_are_refused(wanted: Fraction) -> None:
    with pytest.raises(PlanError, match="variance"):
        round_variance(wanted)


def test_the_quantile_s_law_is_the_exponential_mechanism_s() -> None:
    sizes = np.array([0, 1, 1, 2, 2, 2, 3, 5])
    epsilon, q = Fraction(1, 2), Fraction(3, 4)
    n = 1500
    drawn = [private_quantile(sizes, 6, q, epsilon, SeededRandomness(s)) for s in range(n)]
    utility = np.array([-abs(float((sizes <= x).sum() - q * 8)) for x in range(7)])
    weights = np.exp(float(epsilon) * utility / 2)
    assert p_value(np.bincount(drawn, minlength=7), n * weights / weights.sum()) > ALPHA


def test_no_number_of_users_is_too_many_for_exact_integers() -> None:
    # Exponents beyond 63 bits: candidates far from the quantile never come, the nearest does.
    sizes = np.arange(4096) % 4
    for epsilon in (Fraction(1 << 50), Fraction((1 << 90) + 1, 1 << 24)):
        drawn = [
            private_quantile(sizes, 3, Fraction(1, 10_000), epsilon, SeededRandomness(s))
            for s in range(20)
        ]
        assert drawn == [0] * 20
