"""Four schemes that estimate a table from observed frequencies of randomised records.

They are called joint, independent, hybrid and truncated. Each takes the table of *randomised*
records over the requested attributes and the channel of each block. Only the first is
unbiased for every population; no scheme normalises its result.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from estimators.numerics.block_inverse import expected_sse, noise, unmix

if TYPE_CHECKING:
    from collections.abc import Sequence

    from estimators.numerics.block_inverse import AxisChannel

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """One scheme's answer.

    Attributes:
        table: shape of the observed table, float64; may be negative, need not sum to 1.
        variance: of each cell before any clipping, from the mechanism's noise; same shape.
        joint: whether the inverse of the joint channel was used (else blocks were multiplied).
        clipped: whether any cell was cut off.
    """

    table: Floats
    variance: Floats
    joint: bool
    clipped: bool = False


def joint(observed: Floats, factors: Sequence[AxisChannel], n: int) -> Estimate:
    """RR-Ind-Joint (within one block: RR-Joint): the castell inverse. Unbiased; sums to 1."""
    return Estimate(unmix(observed, factors), noise(observed, factors, n), joint=True)


def independent(observed: Floats, factors: Sequence[AxisChannel], n: int) -> Estimate:
    """RR-Independent (RR-Clusters): the product over blocks of each block's own estimate.

    Blocks are randomised independently, so given the data their estimates are too, and the
    variance of a product is ``prod(f^2 + v) - prod(f^2)``. What dependence between blocks adds to
    the error is not in it. Sums to 1 up to rounding.
    """
    parts = []
    for f in factors:
        others = tuple(j for j in range(observed.ndim) if j not in f.axes)
        parts.append(joint(observed.sum(axis=others, keepdims=True), [f], n))
    return multiply(parts)


def multiply(parts: Sequence[Estimate]) -> Estimate:
    """Return the product of independent estimates that broadcast against each other."""
    if len(parts) == 1:
        return parts[0]
    table, square, spread = (np.ones((1,) * parts[0].table.ndim) for _ in range(3))
    for part in parts:
        table = table * part.table
        square = square * np.square(part.table)
        spread = spread * (np.square(part.table) + part.variance)
    return Estimate(table, spread - square, joint=False)


def hybrid(observed: Floats, factors: Sequence[AxisChannel], n: int) -> Estimate:
    """Whichever of the two has the smaller predicted error on this very table.

    The joint's error is known exactly, ``e = (prod M - 1) / n``; that of the product is estimated
    by ``max(0, |joint - product|^2 - e)`` in place of
    the bounds of the paper's Table III (docs/methods/whole-records.md).
    """
    first, second = joint(observed, factors, n), independent(observed, factors, n)
    error = expected_sse(factors, n)
    apart = float(np.square(first.table - second.table).sum())
    return first if error <= max(0.0, apart - error) else second


def truncated(observed: Floats, factors: Sequence[AxisChannel], n: int) -> Estimate:
    """Algorithm 4: negative cells to 0, then no cell above its (w-1)-way estimates.

    The (w-1)-way castell estimates are the projections of the w-way one. A cap below zero, which
    Algorithm 4 would copy into the table, counts as 0.
    """
    raw = joint(observed, factors, n)
    table = np.maximum(raw.table, 0.0)
    if observed.ndim > 1:
        for axis in range(observed.ndim):
            cap = raw.table.sum(axis=axis, keepdims=True)
            table = np.minimum(table, np.maximum(cap, 0.0))
    clipped = bool((np.abs(table - raw.table) > 1e-12).any())
    return Estimate(table, raw.variance, joint=True, clipped=clipped)


def independent_error(moments: Sequence[float], cells: Sequence[int], n: int) -> float:
    """Return the expected noise part of RR-Independent's squared error on uniform data.

    ``prod(1 / r + (M - 1) / n) - prod(1 / r)``: no formula knows the part that dependence adds.
    """
    noisy = np.prod([1.0 / r + (m - 1.0) / n for m, r in zip(moments, cells, strict=True)])
    return float(noisy - np.prod([1.0 / r for r in cells]))
