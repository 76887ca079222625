"""Maximum entropy for binary attributes with every constraint loosened by its variance.

Of moments ``theta_S = E[chi_S]`` (chi_S the product of the signs of S, S up to a given order) only
an estimate t_S of variance v_S is known. The table is ``p = exp(sum_S lambda_S chi_S) / Z`` with
lambda the minimum of the strictly convex

    log Z(lambda) - lambda . t + sum_S v_S lambda_S^2 / 2,

the dual of: minimise ``sum_S (theta_S - t_S)^2 / (2 v_S) + KL(p | uniform)``. Where the estimates
are exact it is maximum entropy given them; where no table has them it gives way in proportion to
their variances; it always is a table. Solved by damped Newton steps: gradient ``theta - t + v
lambda``, Hessian ``theta_{S xor T} - theta_S theta_T`` plus v on its diagonal, both from one
Walsh-Hadamard transform.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from estimators.noise_aware.input.walsh import AttributeSets
from estimators.numerics.hadamard import transform

Floats = NDArray[np.float64]

LEAST_VARIANCE = 1e-7
"""Added to every variance, so that the Hessian can be inverted."""

_STEPS = 40
_HALVINGS = 12
_SETTLED = 1e-7
_AGAIN = (6, 1e-3)
"""Most steps of `Relaxed.again`, and what settles them. Draws that need more steps hardly any table
meets. Left on their way they put more into nearly empty cells than at their end: on data made for
development intervals of six attributes then were a tenth wider, and covered 97.9 % instead of 97.6
(and 94 instead of 92 % on heavy-tailed baskets, which need it)."""


@dataclass(frozen=True, slots=True, eq=False)
class Relaxed:
    """Fitted tables.

    Attributes:
        sets: the constraints.
        targets: shape (batch, sets): t.
        variances: shape (batch, sets): v.
        tables: shape (batch, cells); positive, sum to 1.
        weights: shape (batch, sets): lambda.
    """

    sets: AttributeSets
    targets: Floats
    variances: Floats
    tables: Floats
    weights: Floats

    @property
    def hessian(self) -> Floats:
        """Derivative of the targets by lambda: shape (batch, sets, sets); made when asked for."""
        return _derivatives(self.sets, self.tables, self.variances + LEAST_VARIANCE)[1]

    def again(self, changes: Floats) -> Floats:
        """The only table as it is where its targets are changed, by solving again from its weights.

        To first order in the changes would not do: a cell that is nearly empty has no room to
        move as far down as up, and its logarithm moves by many times what it can.

        Args:
            changes: shape (draws, sets).

        Returns:
            Shape (draws, cells); each positive, sums to 1. Cost: at most `_AGAIN` steps of `fit`.
        """
        steps, settled = _AGAIN
        variances = np.broadcast_to(self.variances, changes.shape)
        start = np.broadcast_to(self.weights, changes.shape)
        targets = self.targets + changes
        # The first step alone is what small changes need, and too small a decrement to count.
        return fit(
            self.sets, targets, variances, start, steps=steps, settled=settled, least=1
        ).tables


def spread(sets: AttributeSets, weights: Floats) -> Floats:
    """``sum_S lambda_S chi_S`` over all cells: shape (batch, sets) to (batch, cells)."""
    out = np.zeros((len(weights), 1 << sets.attributes))
    out[:, sets.index] = weights
    return transform(out)


def fit(
    sets: AttributeSets,
    targets: Floats,
    variances: Floats,
    start: Floats | None = None,
    *,
    steps: int = _STEPS,
    settled: float = _SETTLED,
    least: int = 0,
) -> Relaxed:
    """The tables that meet the targets as far as their variances ask for.

    Args:
        sets: constraints; the first ones are the attributes themselves.
        targets: shape (batch, sets): t.
        variances: shape (batch, sets): v, not negative.
        start: shape (batch, sets): lambda to start from; by default independent attributes.
        steps: at most so many.
        settled: largest decrement (of the loss, twice) at which steps end.
        least: at least so many, however small the decrement is.

    Cost: some 4 steps of O(batch (sets^3 + cells log cells)).
    """
    v = variances + LEAST_VARIANCE
    d = sets.attributes
    if start is None:
        start = np.zeros(targets.shape)
        start[:, :d] = np.arctanh(np.clip(targets[:, :d], -0.999, 0.999))
    lam = start
    tables, loss = _state(sets, lam, targets, v)
    for number in range(steps):
        theta, hessian = _derivatives(sets, tables, v)
        gradient = theta - targets + v * lam
        step = np.linalg.solve(hessian, gradient[..., None])[..., 0]
        decrement = (gradient * step).sum(axis=1)
        if number >= least and not float(decrement.max()) > settled:
            break
        length = np.ones(len(lam))
        for _ in range(_HALVINGS):
            after = lam - length[:, None] * step
            found, reached = _state(sets, after, targets, v)
            worse = ~(reached <= loss - 1e-4 * length * decrement + 1e-12)
            if not worse.any():
                break
            length = np.where(worse, length / 2.0, length)
        lam = np.where(worse[:, None], lam, after)
        tables = np.where(worse[:, None], tables, found)
        loss = np.where(worse, loss, reached)
        if worse.all():
            break
    return Relaxed(sets, targets, variances, tables, lam)


def _state(
    sets: AttributeSets, lam: Floats, targets: Floats, variances: Floats
) -> tuple[Floats, Floats]:
    """Tables and the value that is minimised."""
    energy = spread(sets, lam)
    top = energy.max(axis=1, keepdims=True)
    tables = np.exp(energy - top)
    total = tables.sum(axis=1, keepdims=True)
    loss = (np.log(total) + top)[:, 0]
    loss += (0.5 * variances * np.square(lam) - targets * lam).sum(axis=1)
    return tables / total, loss


def _derivatives(sets: AttributeSets, tables: Floats, variances: Floats) -> tuple[Floats, Floats]:
    """Moments and Hessian."""
    theta = transform(tables)
    own = theta[:, sets.index]
    hessian = theta[:, sets.crossed] - own[:, :, None] * own[:, None, :]
    along = np.arange(own.shape[1])
    hessian[:, along, along] += variances
    return own, hessian
