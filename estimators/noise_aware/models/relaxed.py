"""Relaxed maximum entropy for binary attributes: moments are met as far as they are known.

Moments theta_S = E[chi_S] have estimates t_S of variance v_S. The table is ``p = exp(sum_S lambda_S
chi_S) / Z`` with lambda the minimum of the strictly convex

    log Z(lambda) - lambda . t + sum_S v_S lambda_S^2 / 2,

found by damped Newton steps. Gradient ``theta - t + v lambda`` and Hessian ``theta_{S xor T} -
theta_S theta_T`` (plus v on the diagonal) come from one Walsh-Hadamard transform. See
noise-aware.md, section 7.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calmstream.estimators.noise_aware.arrays import Floats
from calmstream.estimators.numerics.hadamard import transform
from calmstream.estimators.numerics.subsets import AttributeSets

LEAST_VARIANCE = 1e-7
"""Added to every variance, so that the Hessian can be inverted."""


@dataclass(frozen=True, slots=True, eq=False)
class Relaxed:
    """Fitted tables; symbols are those of the module's formula."""

    sets: AttributeSets  # The constraints
    targets: Floats  # (batch, sets): t
    variances: Floats  # (batch, sets): v
    tables: Floats  # (batch, cells); positive, sum to 1
    weights: Floats  # (batch, sets): lambda

    @property
    def hessian(self) -> Floats:
        """Derivative of the targets by lambda: shape (batch, sets, sets)."""
        return _derivatives(self.sets, self.tables, self.variances + LEAST_VARIANCE)[1]

    def again(self, changes: Floats) -> Floats:
        """Solve for changed targets of the only table: shape (draws, sets) to (draws, cells).

        A linear approximation is not enough: a nearly empty cell cannot move as far down as up.
        There are at most 6 steps, as hardly any table can meet changes that need more; an
        unfinished answer widens intervals.
        """
        variances = np.broadcast_to(self.variances, changes.shape)
        start = np.broadcast_to(self.weights, changes.shape)
        targets = self.targets + changes
        # At least one step: the decrement of a small change is below the limit from the start.
        return fit(self.sets, targets, variances, start, steps=6, settled=1e-3, least=1).tables


def fit(
    sets: AttributeSets,
    targets: Floats,
    variances: Floats,
    start: Floats | None = None,
    *,
    steps: int = 40,
    settled: float = 1e-7,
    least: int = 0,
) -> Relaxed:
    """Fit tables that meet the targets as closely as their variances demand.

    Args:
        sets: the constraints; the first ones are single attributes.
        targets: shape (batch, sets): t.
        variances: shape (batch, sets): v, not negative.
        start: shape (batch, sets): lambda to start from; None: independent attributes.
        steps: maximum number of steps, each O(batch (sets^3 + cells log cells)); 4 are usual.
        settled: steps end when twice the expected decrease of the loss is at most this.
        least: minimum number of steps.
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
        step = np.asarray(np.linalg.solve(hessian, gradient[..., None])[..., 0], np.float64)
        decrement = (gradient * step).sum(axis=1)
        if number >= least and not float(decrement.max()) > settled:
            break
        problem = (sets, targets, v)
        lam, tables, loss, stuck = _search(problem, (lam, tables, loss), step, decrement)
        if stuck:
            break
    return Relaxed(sets, targets, variances, tables, lam)


def _search(
    problem: tuple[AttributeSets, Floats, Floats],
    at: tuple[Floats, Floats, Floats],
    step: Floats,
    decrement: Floats,
) -> tuple[Floats, Floats, Floats, bool]:
    """Halve each step until it lowers the loss; return the new state and whether none did."""
    sets, targets, v = problem
    lam, tables, loss = at
    length = np.ones(len(lam))
    for _ in range(12):  # below 1 / 4096 of a step rounding decides
        after = lam - length[:, None] * step
        found, reached = _state(sets, after, targets, v)
        worse = ~(reached <= loss - 1e-4 * length * decrement + 1e-12)
        if not worse.any():
            break
        length = np.where(worse, length / 2.0, length)
    lam = np.where(worse[:, None], lam, after)
    tables = np.where(worse[:, None], tables, found)
    return lam, tables, np.where(worse, loss, reached), bool(worse.all())


def _state(
    sets: AttributeSets, lam: Floats, targets: Floats, variances: Floats
) -> tuple[Floats, Floats]:
    """Return the tables of lambda and the values of the loss, which is minimised."""
    spread = np.zeros((len(lam), 1 << sets.attributes))
    spread[:, sets.index] = lam
    energy = transform(spread)
    top = energy.max(axis=1, keepdims=True)
    tables = np.exp(energy - top)
    total = tables.sum(axis=1, keepdims=True)
    loss = (np.log(total) + top)[:, 0]
    loss += (0.5 * variances * np.square(lam) - targets * lam).sum(axis=1)
    return tables / total, loss


def _derivatives(sets: AttributeSets, tables: Floats, variances: Floats) -> tuple[Floats, Floats]:
    """Return the moments of tables and the Hessian of the loss."""
    theta = transform(tables)
    own = theta[:, sets.index]
    hessian = theta[:, sets.crossed] - own[:, :, None] * own[:, None, :]
    along = np.arange(own.shape[1])
    hessian[:, along, along] += variances
    return own, hessian
