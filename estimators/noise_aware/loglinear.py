"""A log-linear model of a few binary attributes, with its interactions shrunk by order.

``p(x) = exp(sum_S lambda_S chi_S(x)) / Z`` over all cells, S up to a given order, chi_S the product
of the signs of S. Every table that it answers is valid and all agree, and that positivity is worth
much once noise is low. ``lambda_S`` is normal with mean 0 and a variance learnt per order
(`shrinkage.gains`); those of order one have a wide prior. The fit minimises

    sum_S (theta_S - estimate_S)^2 / (2 variance_S) + sum_S lambda_S^2 / (2 prior_S)

by damped Gauss-Newton steps, alternating with the priors. As ``d theta_S / d lambda_T =
theta_{S xor T} - theta_S theta_T``, a fast Walsh-Hadamard transform gives the whole Jacobian.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from estimators.mechanisms.hadamard import transform
from estimators.noise_aware.shrinkage import gains
from estimators.noise_aware.walsh import AttributeSets, sets_up_to

if TYPE_CHECKING:
    from estimators.domain import Attributes
    from estimators.noise_aware.statistics import Statistics

Floats = NDArray[np.float64]

MAX_ATTRIBUTES = 9
MAX_ORDER = 4

_WIDE = 4.0
_SIZES = (0.0, 0.3, 0.15, 0.1)
"""Prior sizes of interactions of orders 2, 3 and 4 (half-normal)."""

_STEPS = 60
_UPDATES = 14
_EASE = 5
_STEP_LIMIT = 1.0
_SETTLED = 0.05


@dataclass(frozen=True, slots=True, eq=False)
class LogLinear:
    """A fitted model.

    Attributes:
        table: shape (2,) * d: the joint distribution.
        jacobian: shape (cells, sets): of the table by lambda.
        covariance: shape (sets, sets): of lambda, normal approximation of the posterior.
        coefficients: shape (sets,): the model's theta.
        freedom: shape (sets,): derivative of each coefficient by its own estimate.
        members: the sets.
    """

    table: Floats
    jacobian: Floats
    covariance: Floats
    coefficients: Floats
    freedom: Floats
    members: tuple[Attributes, ...]

    def marginal(self, attributes: Attributes) -> tuple[Floats, Floats]:
        """Table and variance of each cell: shape (2,) * attributes both."""
        d = self.table.ndim
        others = tuple(i for i in range(d) if i not in attributes)
        moves = self.jacobian.reshape(*self.table.shape, -1).sum(axis=others)
        variance = np.einsum("...s,st,...t->...", moves, self.covariance, moves, optimize=True)
        return self.table.sum(axis=others), variance


def fit(statistics: Statistics) -> LogLinear:
    """Model of all attributes, which are binary and at most `MAX_ATTRIBUTES`.

    Cost: some 40 steps of O(sets^3 + 2^d d): 10 ms for 8 attributes and pairs, 100 ms with triples.
    """
    d = statistics.means.size
    order = min(MAX_ORDER, max([2, *map(len, statistics.higher)]), d)
    sets = sets_up_to(d, order)
    seen, precision = np.zeros(len(sets.members)), np.zeros(len(sets.members))
    for number, members in enumerate(sets.members):
        seen[number], precision[number] = _look_up(statistics, members)
    return _Fit(d, sets, seen, precision).run()


def _look_up(statistics: Statistics, members: Attributes) -> tuple[float, float]:
    if len(members) == 1:
        return float(statistics.means[members]), float(statistics.mean_precision[members])
    if len(members) == 2:
        return float(statistics.products[members]), float(statistics.product_precision[members])
    return statistics.higher.get(members, (0.0, 0.0))


class _Fit:
    def __init__(self, d: int, sets: AttributeSets, seen: Floats, precision: Floats) -> None:
        self.d, self.sets, self.seen, self.precision = d, sets, seen, precision
        self.prior = np.array([_WIDE if o == 1 else _SIZES[o - 1] ** 2 for o in sets.order])
        known = precision[:d] / (precision[:d] + 3.0)
        self.lam = np.zeros(seen.size)
        self.lam[:d] = np.arctanh(np.clip(seen[:d] * known, -0.97, 0.97))
        self.damping = 0.0
        self.doubt = np.zeros(seen.size)

    def _state(self, lam: Floats) -> tuple[Floats, Floats]:
        """Probabilities and all their coefficients."""
        spread = np.zeros(1 << self.d)
        spread[self.sets.index] = lam
        energy = transform(spread)
        table = np.exp(energy - energy.max())
        table /= table.sum()
        return table, transform(table)

    def _loss(self, lam: Floats, theta: Floats, precision: Floats) -> float:
        gap = theta[self.sets.index] - self.seen
        return 0.5 * float((precision * gap * gap).sum() + (lam * lam / self.prior).sum())

    def run(self) -> LogLinear:
        """Ease the statistics in, then alternate steps and priors until neither moves."""
        ease, updates = _EASE, 0
        for _ in range(_STEPS):
            moved, curvature = self._step(self.precision * 4.0**-ease)
            if ease > 0:
                ease -= moved < 0.5
            elif moved < _SETTLED:
                if updates == _UPDATES:
                    break
                self._update_priors(np.asarray(np.linalg.inv(curvature), np.float64))
                updates += 1
        return self._result()

    def _step(self, precision: Floats) -> tuple[float, Floats]:
        """One damped step; its largest move (0 when none helps) and the curvature before it."""
        _, theta = self._state(self.lam)
        own = theta[self.sets.index]
        slope = theta[self.sets.crossed] - np.outer(own, own)
        likelihood = (slope * precision[:, None]).T @ slope
        curvature = likelihood + np.diag(1.0 / self.prior)
        gradient = slope @ (precision * (own - self.seen)) + self.lam / self.prior
        loss = self._loss(self.lam, theta, precision)
        for _ in range(8):
            damped = curvature + np.diag(self.damping * np.diag(likelihood))
            step = -np.linalg.solve(damped, gradient)
            moved = float(np.abs(step).max())
            if moved > _STEP_LIMIT:
                step *= _STEP_LIMIT / moved
            after = self.lam + step
            if self._loss(after, self._state(after)[1], precision) <= loss * (1 + 1e-9) + 1e-12:
                self.lam = after
                self.damping = self.damping / 8.0 if self.damping > 1e-4 else 0.0
                return moved, curvature
            self.damping = max(self.damping * 8.0, 1e-3)
        return 0.0, curvature

    def _update_priors(self, covariance: Floats) -> None:
        """Learn the prior variances from what the statistics alone say about each lambda."""
        spread = np.diag(covariance)
        for order in range(2, int(self.sets.order.max()) + 1):
            own = self.sets.order == order
            information = np.maximum(1.0 / spread[own] - 1.0 / self.prior[own], 1e-6)
            effects = self.lam[own] / spread[own] / information
            gain, self.doubt[own] = gains(effects, 1.0 / information, _SIZES[order - 1])
            wanted = np.clip(gain / np.maximum(1.0 - gain, 1e-9) / information, 1e-6, 25.0)
            self.prior[own] = np.sqrt(self.prior[own] * wanted)

    def _result(self) -> LogLinear:
        table, theta = self._state(self.lam)
        own = theta[self.sets.index]
        slope = theta[self.sets.crossed] - np.outer(own, own)
        likelihood = (slope * self.precision[:, None]).T @ slope
        covariance = np.asarray(np.linalg.inv(likelihood + np.diag(1.0 / self.prior)), np.float64)
        freedom = np.einsum("st,tu,su->s", slope, covariance, slope) * self.precision
        signs = transform(np.eye(1 << self.d)[self.sets.index]).T
        jacobian = table[:, None] * (signs - own)
        # A prior whose size is in doubt holds back less: what is unsure moves as the data let it.
        wider = np.diag(1.0 / (self.prior + self.doubt))
        covariance = np.asarray(np.linalg.inv(likelihood + wider), np.float64)
        return LogLinear(
            table.reshape((2,) * self.d), jacobian, covariance, own, freedom, self.sets.members
        )
