"""What a model leaves of second moments: a horseshoe, most of it nothing, a few pairs large.

A residual correlation is r_ij ~ N(0, tau^2 kappa_ij^2) with tau half-normal and kappa half-Cauchy
(Carvalho, Polson and Scott 2010). Integrated out, an estimate misses what the model foretells by
``N(0, noise + scale r^2)``, so tau and every kappa have exact conditionals, on grids.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from estimators.noise_aware.sampling.draws import choose

Floats = NDArray[np.float64]

RESIDUAL = 0.1
"""Prior size of tau, in units of a correlation (half-normal)."""

_TAU = np.exp(np.linspace(np.log(2e-3), np.log(0.6), 32))
_TAU_PRIOR = -0.5 * np.square(_TAU / RESIDUAL) + np.log(_TAU)
_KAPPA = np.exp(np.linspace(np.log(0.05), np.log(20.0), 13))
_KAPPA_PRIOR = np.log(_KAPPA / (1.0 + np.square(_KAPPA)))[:, None]


def draw_sizes(
    random: np.random.Generator,
    square: Floats,
    noise: Floats,
    scale: Floats,
    kappa2: Floats,
    most: Floats | None = None,
) -> tuple[Floats, Floats]:
    """Tau given every kappa, then every kappa given tau.

    Args:
        random: what draws come from.
        square: shape (chains, pairs): squares of estimates less what the model foretells.
        noise: shape (pairs,): variances of the estimates.
        scale: shape (chains, pairs) or (1, pairs): variances of a correlation of 1.
        kappa2: shape (chains, pairs): present squares of kappa.
        most: shape (chains, pairs): what no residual's variance exceeds; None: anything.

    Returns:
        Tau, shape (chains,), and squares of kappa, shape (chains, pairs). Cost: some 45 logarithms
        a pair and chain.
    """
    square, own = square[:, None], scale[:, None]
    variance = np.square(_TAU)[:, None] * own
    variance = variance * kappa2[:, None]
    score = -0.5 * _energy(square, noise, variance, most).sum(axis=2) + _TAU_PRIOR
    tau = _TAU[choose(random, score, axis=1)]
    variance = np.square(_KAPPA)[:, None] * (own * np.square(tau)[:, None, None])
    score = -0.5 * _energy(square, noise, variance, most) + _KAPPA_PRIOR
    return tau, np.square(_KAPPA[choose(random, score, axis=1)])


def _energy(square: Floats, noise: Floats, variance: Floats, most: Floats | None) -> Floats:
    """Minus twice the normal log likelihood; in place of ``variance``, as it is a large array."""
    if most is not None:
        np.minimum(variance, most[:, None], out=variance)
    variance += noise
    out = square / variance
    out += np.log(variance, out=variance)
    return out
