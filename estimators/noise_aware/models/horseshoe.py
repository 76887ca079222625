"""The horseshoe: many effects of which most are nearly 0 and a few are not.

Effect a is ``N(0, s^2 kappa_a^2)`` with one half-normal scale s for all and a half-Cauchy kappa_a
for each (Carvalho, Polson and Scott 2010). It is observed with normal noise. With the effects
integrated out, s and every kappa have exact conditional distributions on grids. `draw_scales` draws
them inside a sampler; `gains` integrates over them. See noise-aware.md, section 4.
"""

from __future__ import annotations

import numpy as np

from estimators.noise_aware import priors
from estimators.noise_aware.arrays import Floats
from estimators.numerics.grids import HalfNormal, LogGrid, half_cauchy
from estimators.numerics.sampling import choose


def draw_scales(
    random: np.random.Generator,
    square: Floats,
    noise: Floats,
    unit: Floats,
    kappa2: Floats,
    most: Floats | None = None,
) -> tuple[Floats, Floats]:
    """Draw the scale given every kappa, then every kappa given the scale.

    Args:
        random: source of the draws.
        square: shape (chains, pairs): squares of estimates less predictions.
        noise: shape (pairs,): variances of the estimates.
        unit: shape (chains, pairs) or (1, pairs): variances of an effect of 1.
        kappa2: shape (chains, pairs): squares of kappa before the draw.
        most: shape (chains, pairs): upper limit of an effect's variance; None: no limit.

    Returns:
        Scales, shape (chains,), and squares of kappa, shape (chains, pairs).
    """
    scales, ratios = priors.RESIDUAL_SCALE.points, priors.RESIDUAL_RATIO.points
    square, own = square[:, None], unit[:, None]
    variance = np.square(scales)[:, None] * own * kappa2[:, None]
    score = (
        -0.5 * _energy(square, noise, variance, most).sum(axis=2) + priors.RESIDUAL_SCALE.on_grid
    )
    scale = scales[choose(random, score, axis=1)]
    variance = np.square(ratios)[:, None] * (own * np.square(scale)[:, None, None])
    prior = np.log(half_cauchy(ratios))[:, None]
    score = -0.5 * _energy(square, noise, variance, most) + prior
    return scale, np.square(ratios[choose(random, score, axis=1)])


def gains(effects: Floats, variances: Floats, size: float) -> tuple[Floats, Floats]:
    """Average the gain ``s^2 kappa^2 / (s^2 kappa^2 + variance)`` of each effect over s and kappa.

    With probability 1/2 there is no effect at all. Else the prior of s is half-normal of that size,
    even in the logarithm from 0.001 on. Shape (count,) all: gains, and the variance that their
    uncertainty adds to ``gain * variance`` of the shrunk effects. Cost: 252 count.
    """
    scales = HalfNormal(1e-3, 1.5, 28, size)
    ratios = LogGrid(0.1, 10.0, 9).points
    kappa = half_cauchy(ratios)
    prior = np.square(scales.points[:, None] * ratios[None])[:, :, None]
    total = variances + prior
    score = -0.5 * (np.square(effects) / total + np.log(total))
    score += np.log(kappa / kappa.sum())[None, :, None]
    top = score.max(axis=1, keepdims=True)
    likely = np.exp(score - top)
    mass = likely.sum(axis=1)
    evidence = (np.log(mass) + top[:, 0]).sum(axis=1) + scales.on_grid
    weight = np.exp(evidence - evidence.max())
    # Weight of no effect, in units of exp(the largest evidence).
    without = -0.5 * float((np.square(effects) / variances + np.log(variances)).sum())
    lead = min(without - float(evidence.max()), 600.0)  # exp overflows above 709
    weight /= weight.sum() + float(np.exp(scales.on_grid).sum()) * np.exp(lead)
    ratio = prior / total
    gain = weight @ ((likely * ratio).sum(axis=1) / mass)
    square = weight @ ((likely * np.square(ratio)).sum(axis=1) / mass)
    doubt = np.maximum(square - np.square(gain), 0.0) * np.square(effects)
    return np.asarray(gain, np.float64), np.asarray(doubt, np.float64)


def _energy(square: Floats, noise: Floats, variance: Floats, most: Floats | None) -> Floats:
    """Return minus twice the normal log likelihood; ``variance``, a large array, is overwritten."""
    if most is not None:
        np.minimum(variance, most[:, None], out=variance)
    variance += noise
    out = square / variance
    out += np.log(variance, out=variance)
    return out
