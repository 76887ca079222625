"""Non-negative Lasso on a Kronecker design, and EM on reports: LoPub's two estimators.

The regression of joint bit frequencies y on the filters of all candidate values,

    minimise  |y - M b|^2 / 2 + penalty · sum(b)  over b >= 0,   M = M_1 ⊗ … ⊗ M_w,

needs y only through ``M^T y`` and M only through the axes' Gram matrices, so neither the bits'
joint table (64^w cells) nor M is ever formed. Solved by accelerated projected gradient steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from estimators.numerics.block_inverse import fold_axis

if TYPE_CHECKING:
    from collections.abc import Sequence

Floats = NDArray[np.float64]

MAX_STEPS = 5000
TOLERANCE = 1e-8
_EM_ENTRIES = 1 << 21


def nonnegative_lasso(
    scores: Floats,
    grams: Sequence[Floats],
    penalty: float,
    allowed: NDArray[np.bool_] | None = None,
) -> Floats:
    """Return the minimiser, to an absolute accuracy of about 1e-8 per step.

    Args:
        scores: ``M^T y``, one axis per attribute.
        grams: ``M_i^T M_i`` of every axis, positive semidefinite.
        penalty: at least 0.
        allowed: cells that may be positive; all by default.

    Returns:
        The shape of ``scores``, non-negative. Cost: O(steps · cells · sum of axis lengths).
    """
    step = 1.0 / float(np.prod([np.linalg.eigvalsh(g)[-1] for g in grams]))
    here = np.zeros_like(scores)
    ahead, momentum = here, 1.0
    for _ in range(MAX_STEPS):
        gradient = ahead
        for axis, gram in enumerate(grams):
            gradient = fold_axis(gradient, axis, gram)
        following = np.maximum(ahead - step * (gradient - scores + penalty), 0.0)
        if allowed is not None:
            following = np.where(allowed, following, 0.0)
        moved = following - here
        if float(np.abs(moved).max()) < TOLERANCE:
            return following
        if float(((ahead - following) * moved).sum()) > 0.0:
            momentum = 1.0  # the momentum points uphill: start it afresh
        raised = (1.0 + np.sqrt(1.0 + 4.0 * momentum**2)) / 2.0
        ahead = following + (momentum - 1.0) / raised * moved
        here, momentum = following, raised
    return here


def expectation_maximisation(
    likelihoods: Sequence[Floats], start: Floats, *, rounds: int = 200, tolerance: float = 1e-6
) -> Floats:
    """Return the maximum-likelihood joint frequencies, given all reports.

    A stream keeps no reports, so this is for evaluation only.

    Args:
        likelihoods: for every attribute the likelihood of each report given each value, up to a
            factor per report: shape (n, r_i), positive.
        start: distribution to start from, shape (r_1, …, r_w); cells at 0 stay at 0.
        rounds: at most.
        tolerance: stop when no cell moves more.

    Returns:
        The shape of ``start``, a distribution. Cost: O(rounds · n · cells).
    """
    table = start / start.sum()
    n, size = len(likelihoods[0]), table.size
    live = np.flatnonzero(table.reshape(-1))
    places = np.unravel_index(live, table.shape)
    step = max(1, _EM_ENTRIES // max(1, len(live)))
    weights = table.reshape(-1)[live]
    for _ in range(rounds):
        mass = np.zeros(len(live))
        for first in range(0, n, step):
            joint = np.ones((len(likelihoods[0][first : first + step]), len(live)))
            for own, place in zip(likelihoods, places, strict=True):
                joint *= own[first : first + step][:, place]
            joint *= weights
            mass += (joint / joint.sum(axis=1, keepdims=True)).sum(axis=0)
        mass /= n
        moved = float(np.abs(mass - weights).max())
        weights = mass
        if moved < tolerance:
            break
    full = np.zeros(size)
    full[live] = weights
    return full.reshape(table.shape)
