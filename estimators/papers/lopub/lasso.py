"""The two estimators of LoPub (Ren et al., TIFS 2018): non-negative Lasso, and EM on reports.

Let y be the joint frequencies of the bits of w filters, and the columns of M_i the filters of the
values of attribute i. The frequencies b of all combinations of values minimise
``|y - M b|^2 / 2 + penalty · sum(b)`` over b >= 0, with ``M = M_1 ⊗ … ⊗ M_w``. That needs y only
through ``M^T y`` and M only through the Gram matrices ``M_i^T M_i``, so neither y (64^w cells with
filters of 64 bits) nor M is ever formed. The solver takes projected gradient steps with momentum
(FISTA with restarts; Beck and Teboulle 2009, O'Donoghue and Candès 2015).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from calmstream.estimators.arrays import Floats

MAX_STEPS = 5000  # of gradient descent; it bounds the time, and the last iterate is returned
TOLERANCE = 1e-8  # the solver stops when a step changes no cell by this much
EM_ROUNDS, EM_TOLERANCE = 200, 1e-6
_EM_ENTRIES = 1 << 21  # of the work array of one batch of reports in EM, in float64: 16 MiB


def nonnegative_lasso(
    scores: Floats,
    grams: Sequence[Floats],
    penalty: float,
    allowed: NDArray[np.bool_] | None = None,
) -> Floats:
    """Return the minimiser of the penalised regression, in the shape of ``scores``."""
    rate = 1.0 / float(np.prod([np.linalg.eigvalsh(g)[-1] for g in grams]))
    iterate = np.zeros_like(scores)
    extrapolated, momentum = iterate, 1.0
    for _ in range(MAX_STEPS):
        gradient = extrapolated
        for axis, gram in enumerate(grams):
            gradient = fold_axis(gradient, axis, gram)
        successor = np.maximum(extrapolated - rate * (gradient - scores + penalty), 0.0)
        if allowed is not None:
            successor = np.where(allowed, successor, 0.0)
        change = successor - iterate
        if float(np.abs(change).max()) < TOLERANCE:
            return successor
        if float(((extrapolated - successor) * change).sum()) > 0.0:
            momentum = 1.0  # restart: the momentum points in a direction of ascent
        next_momentum = (1.0 + np.sqrt(1.0 + 4.0 * momentum**2)) / 2.0
        extrapolated = successor + (momentum - 1.0) / next_momentum * change
        iterate, momentum = successor, next_momentum
    return iterate


def fold_axis(cube: Floats, axis: int, matrix: Floats) -> Floats:
    """Multiply one axis by a matrix; the length of the axis becomes the matrix's number of rows."""
    return np.moveaxis(np.tensordot(matrix, cube, axes=(1, axis)), 0, axis)


def expectation_maximisation(likelihoods: Sequence[Floats], start: Floats) -> Floats:
    """Return the maximum-likelihood joint frequencies, given all reports: only for evaluation.

    Likelihoods are of each report given each value, per attribute (n, r_i), positive, up to a
    factor per report. Cells that are 0 in ``start`` stay so. Cost: O(n · cells) a round.
    """
    table = start / start.sum()
    n, size = len(likelihoods[0]), table.size
    positive_cells = np.flatnonzero(table.reshape(-1))
    values = np.unravel_index(positive_cells, table.shape)
    batch = max(1, _EM_ENTRIES // max(1, len(positive_cells)))
    weights = table.reshape(-1)[positive_cells]
    for _ in range(EM_ROUNDS):
        mass = np.zeros(len(positive_cells))
        for first in range(0, n, batch):
            rows = slice(first, first + batch)
            joint = np.ones((len(likelihoods[0][rows]), len(positive_cells)))
            for likelihood, value in zip(likelihoods, values, strict=True):
                joint *= likelihood[rows][:, value]
            joint *= weights
            mass += (joint / joint.sum(axis=1, keepdims=True)).sum(axis=0)
        mass /= n
        change = float(np.abs(mass - weights).max())
        weights = mass
        if change < EM_TOLERANCE:
            break
    full = np.zeros(size)
    full[positive_cells] = weights
    return full.reshape(table.shape)
