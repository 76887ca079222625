"""Empirical Bayes for many noisy effects of one kind: most are small, a few are not."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_SCALES = np.exp(np.linspace(np.log(1e-3), np.log(1.5), 28))
_LOCAL = np.exp(np.linspace(np.log(0.1), np.log(10.0), 9))
_WEIGHT = _LOCAL / (1.0 + np.square(_LOCAL))
_LOG_WEIGHT = np.log(_WEIGHT / _WEIGHT.sum())
_PRIOR = np.square(_SCALES[:, None] * _LOCAL[None])


def gains(
    effects: Floats, variances: Floats, scale: float, nothing: float = 0.0
) -> tuple[Floats, Floats]:
    """How much of each effect to believe, averaged over what its prior may be.

    Effect a is observed with normal noise of known variance; its own variance is ``s^2 kappa_a^2``
    with one s for all (half-normal of size ``scale`` on an even logarithmic grid from 0.001, which
    stands for none) and kappa_a half-Cauchy (horseshoe). The gain is the posterior mean of
    ``s^2 kappa_a^2 / (s^2 kappa_a^2 + variance)``.

    Args:
        effects: shape (count,).
        variances: shape (count,), positive.
        scale: prior size of s.
        nothing: prior probability that there is no effect at all, below 1.

    Returns:
        Gains, shape (count,), between 0 and 1; and how much the doubt about the gain adds to the
        variance ``gain * variance`` of the shrunk effect, shape (count,). Cost: 252 count.
    """
    total = variances + _PRIOR[:, :, None]
    score = -0.5 * (np.square(effects) / total + np.log(total)) + _LOG_WEIGHT[None, :, None]
    top = score.max(axis=1, keepdims=True)
    likely = np.exp(score - top)
    mass = likely.sum(axis=1)
    evidence = (np.log(mass) + top[:, 0]).sum(axis=1) - 0.5 * np.square(_SCALES / scale)
    weight = np.exp(evidence - evidence.max())
    weight /= weight.sum() + _none(effects, variances, scale, nothing, float(evidence.max()))
    ratio = _PRIOR[:, :, None] / total
    gain = weight @ ((likely * ratio).sum(axis=1) / mass)
    square = weight @ ((likely * np.square(ratio)).sum(axis=1) / mass)
    doubt = np.maximum(square - np.square(gain), 0.0) * np.square(effects)
    return np.asarray(gain, np.float64), np.asarray(doubt, np.float64)


def _none(
    effects: Floats, variances: Floats, scale: float, probability: float, reference: float
) -> float:
    """Weight of no effect, in units of exp(reference), against the grid's unnormalised prior."""
    if probability <= 0.0:
        return 0.0
    score = -0.5 * float((np.square(effects) / variances + np.log(variances)).sum())
    prior = float(np.exp(-0.5 * np.square(_SCALES / scale)).sum())
    odds = probability / (1.0 - probability)
    return float(odds * prior * np.exp(min(score - reference, 600.0)))
