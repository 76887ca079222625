"""The mode of a log-linear model under a fixed normal prior, from which its draws start."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from calmstream.estimators.noise_aware.arrays import Floats, Singles


@dataclass(frozen=True, slots=True, eq=False)
class Observed:
    """Estimates of moments, and how a log-linear model predicts them."""

    estimates: Floats  # (moments,)
    precision: Floats  # (moments,): inverse variances, 0 where there is no estimate
    tables: Callable[[Floats], Singles]  # From weights (batch, weights)
    moments: Callable[[Singles], Floats]  # Of tables: (batch, moments)
    # Moments of tables and their derivatives by the weights: (batch, moments[, weights]).
    slopes: Callable[[Singles], tuple[Floats, Floats]]


def find_mode(observed: Observed, prior: Floats, first: Floats) -> Floats:
    """Return the weights at the mode, by Gauss-Newton steps from ``first``: shape (weights,).

    ``prior`` holds the weights' inverse variances. In the first three steps the estimates have
    lower precision.
    """
    weights, eased = first, 3
    for number in range(25):
        precision = observed.precision * 4.0 ** -max(eased - number, 0)
        own, slope = observed.slopes(observed.tables(weights[None]))
        hessian = (slope[0] * precision[:, None]).T @ slope[0] + np.diag(prior)
        by_weight = np.ascontiguousarray(slope[0].T)  # a sum's order decides its last bit
        gradient = by_weight @ (precision * (own[0] - observed.estimates)) + prior * weights
        step = np.linalg.solve(hessian, gradient)
        moved = float(np.abs(step).max())
        step = step * min(1.0 / max(moved, 1e-9), 1.0)
        weights = _descend(observed, precision, prior, weights, step)
        if number > eased and moved < 0.1:
            break
    return weights


def _descend(
    observed: Observed, precision: Floats, prior: Floats, weights: Floats, step: Floats
) -> Floats:
    """Return the weights after the longest of step, step / 2, ... that does not raise the loss."""
    lengths = np.append(0.0, 0.5 ** np.arange(6))
    # Usually the first length is short enough, and then there is no need of the others.
    for some in (lengths[:2], lengths):
        tried = weights - some[:, None] * step
        gap = observed.estimates - observed.moments(observed.tables(tried))
        loss = (precision * np.square(gap)).sum(axis=1) + (prior * np.square(tried)).sum(axis=1)
        low = np.nonzero(loss[1:] <= loss[0] * (1.0 + 1e-6) + 1e-6)[0]
        if low.size:
            return np.asarray(tried[1 + low[0]])
    return weights
