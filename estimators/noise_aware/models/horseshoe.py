"""The horseshoe: many effects, of which a few may be far larger than the rest.

Effect a is ``N(0, s^2 kappa_a^2)`` with one half-normal scale s for all and a half-Cauchy kappa_a
for each (Carvalho, Polson and Scott 2010). It is observed with normal noise. With the effects
integrated out, s and every kappa have exact conditional distributions on grids. `draw_scales` draws
them inside a sampler; there a power of kappa may be half-Cauchy instead, so that all effects may
have about one size. `gains` integrates over s and kappa. See noise-aware.md, section 4.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from calmstream.estimators.noise_aware import priors
from calmstream.estimators.noise_aware.arrays import Floats, Indices, Singles
from calmstream.estimators.numerics.grids import HalfNormal, LogGrid, half_cauchy
from calmstream.estimators.numerics.sampling import choose


def draw_scales(
    random: np.random.Generator,
    square: Floats,
    noise: Floats,
    unit: Floats,
    kappa2: Floats,
    most: Floats | None = None,
) -> tuple[Floats, Floats]:
    """Draw the scale given every kappa, then the shape of their distribution and every kappa.

    The shape is drawn given the scale, with every kappa integrated out. Densities have single
    precision: their errors are far below those of any estimate.

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
    squares, variances, own = _single(square)[:, None], _single(noise), _single(unit)[:, None]
    limit = None if most is None else _single(most)[:, None]
    variance = _single(np.square(scales))[:, None] * (own * _single(kappa2)[:, None])
    distance = _distance(squares, variances, variance, limit)
    distance += np.log(variance, out=variance)
    score = priors.RESIDUAL_SCALE.on_grid - 0.5 * distance.sum(axis=2, dtype=np.float64)
    scale = scales[choose(random, score, axis=1)]
    chosen = _single(np.square(scale))[:, None, None]
    variance = _single(np.square(ratios))[:, None] * (own * chosen)
    distance = _distance(squares, variances, variance, limit)
    # The largest kappa has the least distance, so no sum of densities is 0.
    np.subtract(distance[:, -1:], distance, out=distance)
    distance *= np.float32(0.5)
    density = np.exp(distance, out=distance)
    density /= np.sqrt(variance, out=variance)
    score = np.log(shapes() @ density).sum(axis=2, dtype=np.float64)
    density *= shapes()[choose(random, score)][:, :, None]
    return scale, np.square(ratios[_choose_by_density(random, density)])


@cache
def shapes() -> Singles:
    """Return the distributions that kappa may have: (shapes, ratios), rows of sum 1.

    ``pivot (kappa / pivot)^(1 / shape)`` is half-Cauchy.
    """
    away = np.log(priors.RESIDUAL_RATIO.points / priors.RESIDUAL_PIVOT)
    exponents = np.array(priors.RESIDUAL_SHAPES)[:, None]
    density = half_cauchy(priors.RESIDUAL_PIVOT * np.exp(away / exponents))
    return _single(density / density.sum(axis=1, keepdims=True))


def gains(
    effects: Floats, variances: Floats, size: float, free: Floats | float = 1.0
) -> tuple[Floats, Floats]:
    """Average the gain ``s^2 kappa^2 / (s^2 kappa^2 + variance)`` of each effect over s and kappa.

    With probability 1/2 there is no effect at all. Else the prior of s is half-normal of that size,
    even in the logarithm from 0.001 on. Shape (count,) all: gains, and the variance that their
    uncertainty adds to ``gain * variance`` of the shrunk effects. Cost: 252 count.

    An effect may be a vector of ``free`` directions with the same gain. Then ``effects`` are the
    lengths of such vectors, ``variances`` the noise of one direction, and the added variance is
    the sum over the directions.
    """
    scales = HalfNormal(1e-3, 1.5, 28, size)
    ratios = LogGrid(0.1, 10.0, 9).points
    kappa = half_cauchy(ratios)
    prior = np.square(scales.points[:, None] * ratios[None])[:, :, None]
    total = variances + prior
    score = -0.5 * (np.square(effects) / total + free * np.log(total))
    score += np.log(kappa / kappa.sum())[None, :, None]
    top = score.max(axis=1, keepdims=True)
    likely = np.exp(score - top)
    mass = likely.sum(axis=1)
    evidence = (np.log(mass) + top[:, 0]).sum(axis=1) + scales.on_grid
    weight = np.exp(evidence - evidence.max())
    # Weight of no effect, in units of exp(the largest evidence).
    without = -0.5 * float((np.square(effects) / variances + free * np.log(variances)).sum())
    lead = min(without - float(evidence.max()), 600.0)  # exp overflows above 709
    weight /= weight.sum() + float(np.exp(scales.on_grid).sum()) * np.exp(lead)
    ratio = prior / total
    gain = weight @ ((likely * ratio).sum(axis=1) / mass)
    square = weight @ ((likely * np.square(ratio)).sum(axis=1) / mass)
    doubt = np.maximum(square - np.square(gain), 0.0) * np.square(effects)
    return np.asarray(gain, np.float64), np.asarray(doubt, np.float64)


def _single(values: Floats) -> Singles:
    return values.astype(np.float32)


def _distance(square: Singles, noise: Singles, variance: Singles, most: Singles | None) -> Singles:
    """Return squares over whole variances; ``variance`` is replaced by the whole variances."""
    if most is not None:
        np.minimum(variance, most, out=variance)
    variance += noise
    return np.asarray(square / variance)


def _choose_by_density(random: np.random.Generator, density: Singles) -> Indices:
    """Draw an index along axis 1, each with probability proportional to its density.

    Shape (chains, grid, pairs) to (chains, pairs); ``density`` is overwritten.
    """
    for row in range(1, density.shape[1]):
        density[:, row] += density[:, row - 1]
    total = density[:, -1]
    reached = density <= (random.random(total.shape, np.float32) * total)[:, None]
    index = reached.view(np.uint8).sum(axis=1, dtype=np.uint8)
    found: Indices = np.minimum(index, density.shape[1] - 1).astype(np.intp)
    return found
