"""Four schemes that estimate a table from observed frequencies of randomised records.

Each takes that table and the channel of each block. Only the first is unbiased for every
population; no scheme normalises its result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from calmstream.estimators.arrays import Floats
from calmstream.estimators.numerics.block_inverse import AxisChannel, expected_sse, noise, unmix

_ROUNDING = 1e-12  # difference of frequencies by rounding; a larger one is by clipping


@dataclass(frozen=True, slots=True, eq=False)
class SchemeEstimate:
    """The estimate of a table by one scheme; arrays have the shape of the observed table."""

    table: Floats  # cells may be negative and need not sum to 1
    variance: Floats  # by the mechanism's noise, before any clipping
    joint: bool  # whether the blocks' channel was inverted together, not multiplied
    clipped: bool = False  # whether any cell was changed to 0 or to an upper limit


def joint(observed: Floats, factors: Sequence[AxisChannel], n: int) -> SchemeEstimate:
    """Return the unbiased inverse of each block's channel: RR-Ind-Joint, of one block RR-Joint."""
    return SchemeEstimate(unmix(observed, factors), noise(observed, factors, n), joint=True)


def independent(observed: Floats, factors: Sequence[AxisChannel], n: int) -> SchemeEstimate:
    """Return the product of the blocks' estimates f: RR-Independent, or RR-Clusters.

    Given the records, these are independent: with variances v that of the product is
    ``prod(f^2 + v) - prod(f^2)``. The bias from dependence between blocks is not included.
    """
    parts = []
    for f in factors:
        others = tuple(j for j in range(observed.ndim) if j not in f.axes)
        parts.append(joint(observed.sum(axis=others, keepdims=True), [f], n))
    return multiply(parts)


def multiply(parts: Sequence[SchemeEstimate]) -> SchemeEstimate:
    """Return the product of independent estimates that broadcast against each other."""
    if len(parts) == 1:
        return parts[0]
    table, square, second_moment = (np.ones((1,) * parts[0].table.ndim) for _ in range(3))
    for part in parts:
        table = table * part.table
        square = square * np.square(part.table)
        second_moment = second_moment * (np.square(part.table) + part.variance)
    return SchemeEstimate(table, second_moment - square, joint=False)


def hybrid(observed: Floats, factors: Sequence[AxisChannel], n: int) -> SchemeEstimate:
    """Return the joint or the product estimate, whichever has the smaller predicted squared error.

    That of the joint estimate is `expected_sse`, e; that of the product is estimated by
    ``max(0, |joint - product|^2 - e)``, in place of the bounds of the paper's Table III.
    """
    inverse, product = joint(observed, factors, n), independent(observed, factors, n)
    error = expected_sse(factors, n)
    distance = float(np.square(inverse.table - product.table).sum())
    return inverse if error <= max(0.0, distance - error) else product


def bounds(factors: Sequence[AxisChannel], n: int) -> tuple[float, float]:
    """Return the paper's bounds of a cell's error: joint (Theorem 6) and product (Theorem 5).

    That of the joint estimate is one of rounding: it falls with n, the noise with its root.
    """
    w, d = len(factors), max(f.cells for f in factors)
    odds = min((f.gap + f.q) / f.q for f in factors)
    rounding = (1.0 + (d - 1) / odds) ** w * float(d) ** w / n
    return rounding, max(float(d) ** -w, 1.0 / d - float(d) ** -w)


def hybrid_by_bounds(observed: Floats, factors: Sequence[AxisChannel], n: int) -> SchemeEstimate:
    """Return the joint or the product estimate, by the thresholds of the paper's Table III."""
    rounding, dependence = bounds(factors, n)
    return (joint if rounding <= dependence else independent)(observed, factors, n)


def truncated(observed: Floats, factors: Sequence[AxisChannel], n: int) -> SchemeEstimate:
    """Return the joint estimate with every cell moved into the range from 0 to its upper limits.

    This is the paper's Algorithm 4. The limits are the cell's sums over one attribute, which are
    estimates of (w-1)-way tables. A limit below 0, which Algorithm 4 would copy, counts as 0.
    """
    raw = joint(observed, factors, n)
    table = np.maximum(raw.table, 0.0)
    if observed.ndim > 1:
        for axis in range(observed.ndim):
            limit = raw.table.sum(axis=axis, keepdims=True)
            table = np.minimum(table, np.maximum(limit, 0.0))
    clipped = bool((np.abs(table - raw.table) > _ROUNDING).any())
    return SchemeEstimate(table, raw.variance, joint=True, clipped=clipped)
