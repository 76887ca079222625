"""The inverse of randomised response on blocks of attributes, one block at a time (Castell).

A response on a block, with probability p of the true cell and q of any other, has the matrix
``P = (p - q) I + q J``; a part of the block's attributes has the same form with the same ``p - q``
and a larger q. Along its own axes ``P^-1 t = (t - q · sum(t)) / (p - q)`` (Kikuchi et al.,
Algorithm 3), in O(axes · cells). Negative values are not corrected.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from calmstream.estimators.arrays import Floats


@dataclass(frozen=True, slots=True)
class AxisChannel:
    """Randomised response on some axes of a table together (the part of one block)."""

    axes: tuple[int, ...]
    cells: int
    gap: float  # p - q, above 0 and below 1
    q: float

    @property
    def diagonal(self) -> float:
        return (1.0 - self.q) / self.gap

    @property
    def off(self) -> float:
        return -self.q / self.gap

    @property
    def moment(self) -> float:
        """Sum M of the squares of a column of the inverse, the same for every report."""
        return self.diagonal**2 + (self.cells - 1) * self.off**2


def unmix(observed: Floats, factors: Sequence[AxisChannel]) -> Floats:
    """Return unbiased joint frequencies from observed ones; may be negative."""
    out = observed.astype(np.float64)
    for f in factors:
        out = (out - f.q * out.sum(axis=f.axes, keepdims=True)) / f.gap
    return out


def mix(truth: Floats, factors: Sequence[AxisChannel]) -> Floats:
    """Return the frequencies of randomised records, given true ones; the inverse of `unmix`."""
    mixed = truth
    for f in factors:
        mixed = f.gap * mixed + f.q * mixed.sum(axis=f.axes, keepdims=True)
    return mixed


def _square_unmix(observed: Floats, factors: Sequence[AxisChannel]) -> Floats:
    """Apply the inverse with every entry squared, otherwise as :func:`unmix`."""
    out = observed
    for f in factors:
        off, diagonal = f.off**2, f.diagonal**2
        out = (diagonal - off) * out + off * out.sum(axis=f.axes, keepdims=True)
    return out


def noise(observed: Floats, factors: Sequence[AxisChannel], n: int) -> Floats:
    """Return each cell's estimated variance, from observed frequencies: unbiased, then cut at 0.

    A report y adds ``g(y, x) / n`` to cell x, g the entry of the inverse: given the data, the
    variance is ``(E g^2 - f) / n`` at the true frequency f.
    """
    variance: Floats = _square_unmix(observed, factors) - unmix(observed, factors)
    return np.maximum(variance, 0.0) / n


def noise_given_truth(truth: Floats, factors: Sequence[AxisChannel], n: int) -> Floats:
    """Return the exact variance of each cell's estimate, given true frequencies ``truth``."""
    variance: Floats = (_square_unmix(mix(truth, factors), factors) - truth) / n
    return variance


def expected_sse(factors: Sequence[AxisChannel], n: int) -> float:
    """Return the exact expected squared error of a joint estimate: ``(prod M - 1) / n``.

    Squared entries of the inverse add up to prod M for every report
    (docs/methods/whole-records.md).
    """
    return (prod(f.moment for f in factors) - 1.0) / n
