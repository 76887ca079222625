"""Numerical composition: the exact privacy profile of a plan's Gaussian noise and its quantiles.

Remark 1.3 of DP Marginals. A count's noise is no less private than Gaussian noise (:mod:`.noise`),
and Gaussian steps, however chosen, add up to one Gaussian step whose precision is the sum of theirs
(Dong, Roth and Su, "Gaussian differential privacy", 2022). An eps-private quantile is no less
private than randomised response with eps, and n of these have the loss ``eps (2 K - n)`` with K
binomial. So the profile is a finite sum, and no privacy loss distribution needs a grid:

    delta(eps) = sum over K of P(K) · gaussian(eps - eps_Q (2 K - n))

with ``gaussian(e) = Phi(mu/2 - e/mu) - exp(e) Phi(-mu/2 - e/mu)`` (Balle and Wang 2018).
"""

from __future__ import annotations

from math import ceil, erfc, exp, sqrt

import numpy as np

from calmstream.estimators.arrays import Floats

# Outcomes of K farther from n/2 · (1 + tanh(eps/2)) than 14 times sqrt(n)/2 have a probability
# below 1e-42 (Hoeffding), which is added to delta.
_DEVIATIONS, _TAIL = 14, 1e-42
_LARGEST = 700.0  # exp() of more overflows. A smaller factor only makes delta larger.


def delta_at(epsilon: float, precision: float, quantiles: int, quantile_epsilon: float) -> float:
    """Return the delta of the composition at epsilon, up to a relative error of about 1e-9.

    Args:
        precision: sum over all Gaussian steps of 1 / sigma^2, for a sensitivity of 1.
        quantiles: number of steps that are ``quantile_epsilon``-private.
    """
    mu = sqrt(precision)
    outcomes, chances = _responses(quantiles, quantile_epsilon)
    left = epsilon - quantile_epsilon * (2.0 * outcomes - quantiles)
    profile = np.array([_gaussian(e, mu) for e in left.tolist()])
    return float(chances @ profile) + (_TAIL if quantiles else 0.0)


def _responses(number: int, epsilon: float) -> tuple[Floats, Floats]:
    """Return the likely numbers K of true answers among randomised responses, and their chances."""
    odds = exp(epsilon)
    middle = round(number * odds / (1.0 + odds))
    reach = ceil(_DEVIATIONS / 2 * sqrt(number)) + 1
    outcomes = np.arange(max(0, middle - reach), min(number, middle + reach) + 1, dtype=np.float64)
    # P(K + 1) / P(K) = odds (n - K) / (K + 1); logarithms, because the ends underflow.
    steps = np.log(odds * (number - outcomes[:-1]) / (outcomes[:-1] + 1.0))
    logs = np.concatenate([[0.0], np.cumsum(steps)])
    weights = np.exp(logs - logs.max())
    return outcomes, weights / weights.sum()


def _gaussian(epsilon: float, mu: float) -> float:
    """Return delta of one Gaussian step, mu = sensitivity / deviation; epsilon may be below 0."""
    if mu == 0.0:
        return max(0.0, -float(np.expm1(epsilon)))
    upper = _normal(mu / 2 - epsilon / mu)
    return max(0.0, upper - exp(min(epsilon, _LARGEST)) * _normal(-mu / 2 - epsilon / mu))


def _normal(x: float) -> float:
    return erfc(-x / sqrt(2.0)) / 2.0
