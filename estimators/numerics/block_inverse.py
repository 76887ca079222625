"""The castell inverse: undo randomised response one axis at a time.

A block of attributes passes through ``P = (p - q) I + q J``. Restricted to some of the block's
attributes it has the same form with fewer cells, ``p - q`` unchanged and q scaled up. Its inverse
is closed: diagonal ``(1 - q) / (p - q)``, elsewhere ``-q / (p - q)``. The Kronecker product of the
blocks' matrices is inverted by applying each inverse along its own axis (Kikuchi et al.,
Algorithm 3), in O(axes · cells) because ``P^-1 t = (t - q · sum(t)) / (p - q)`` along an axis.

All functions are linear or quadratic in the observed frequencies; nothing is clipped here.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

Floats = NDArray[np.float64]


class BlockResponse(Protocol):
    """Randomised response of a record block by block, as far as its inverse needs to know.

    A mechanism fits without being named here, so that mechanisms may use the inverse themselves.
    """

    @property
    def axes(self) -> tuple[int, ...]:
        """Cardinalities of a record's attributes."""
        ...

    @property
    def blocks(self) -> tuple[tuple[int, ...], ...]:
        """Ascending axis numbers of each block."""
        ...

    @property
    def block_cells(self) -> tuple[int, ...]:
        """Cells of each block."""
        ...

    def probabilities(self, block: int) -> tuple[Fraction, Fraction]:
        """Exact probabilities of a block's true cell and of one given other cell."""
        ...


@dataclass(frozen=True, slots=True)
class AxisChannel:
    """Randomised response on some axes of a table, taken together.

    Attributes:
        axes: positions within the table that is to be unmixed.
        cells: their joint cells.
        gap: p - q, in (0, 1).
        q: probability of one given other cell.
    """

    axes: tuple[int, ...]
    cells: int
    gap: float
    q: float

    @property
    def diagonal(self) -> float:
        """Entry of the inverse for the own cell, (1 - q) / (p - q)."""
        return (1.0 - self.q) / self.gap

    @property
    def off(self) -> float:
        """Entry of the inverse for another cell, -q / (p - q)."""
        return -self.q / self.gap

    @property
    def moment(self) -> float:
        """M = sum over cells of the squared inverse entries; the same for every report."""
        return self.diagonal**2 + (self.cells - 1) * self.off**2


def channels(mechanism: BlockResponse, attributes: Sequence[int]) -> tuple[AxisChannel, ...]:
    """Return the channel of a table over ascending ``attributes``: a factor per block."""
    found = []
    for b, block in enumerate(mechanism.blocks):
        axes = tuple(j for j, i in enumerate(attributes) if i in block)
        if axes:
            p, q = mechanism.probabilities(b)
            cells = prod(mechanism.axes[attributes[j]] for j in axes)
            wider = mechanism.block_cells[b] // cells
            found.append(AxisChannel(axes, cells, float(p - q), float(q * wider)))
    return tuple(found)


def unmix(observed: Floats, factors: Sequence[AxisChannel]) -> Floats:
    """Return unbiased joint frequencies from observed ones.

    Args:
        observed: shape of the table, frequencies of randomised records, sum 1.
        factors: one per block; together they hold every axis once.

    Returns:
        The same shape; sums to 1 up to rounding, may be negative.
    """
    out = observed.astype(np.float64)
    for f in factors:
        out = (out - f.q * out.sum(axis=f.axes, keepdims=True)) / f.gap
    return out


def _square_unmix(observed: Floats, factors: Sequence[AxisChannel]) -> Floats:
    """As :func:`unmix` with every entry of the inverse squared."""
    out = observed
    for f in factors:
        off, diagonal = f.off**2, f.diagonal**2
        out = (diagonal - off) * out + off * out.sum(axis=f.axes, keepdims=True)
    return out


def noise(observed: Floats, factors: Sequence[AxisChannel], n: int) -> Floats:
    """Return an unbiased estimate of each cell's variance, from observed frequencies.

    A report adds ``g(y, x) / n`` to cell x, g the inverse's entry; given the data the variance is
    ``(E g^2 - f) / n``. Shape of the table; cut off at 0, which an estimate can fall below.
    """
    variance: Floats = _square_unmix(observed, factors) - unmix(observed, factors)
    return np.maximum(variance, 0.0) / n


def noise_given_truth(truth: Floats, factors: Sequence[AxisChannel], n: int) -> Floats:
    """Exact variance of each cell's estimate given true frequencies ``truth``."""
    mixed = truth
    for f in factors:
        mixed = f.gap * mixed + f.q * mixed.sum(axis=f.axes, keepdims=True)
    variance: Floats = (_square_unmix(mixed, factors) - truth) / n
    return variance


def expected_sse(factors: Sequence[AxisChannel], n: int) -> float:
    """Exact expected sum of squared errors of a joint estimate, for any data.

    ``(prod M - 1) / n``: the squared entries sum to prod M whatever was reported
    (docs/methods/whole-records.md).
    """
    return (prod(f.moment for f in factors) - 1.0) / n


def fold_axis(cube: Floats, axis: int, matrix: Floats) -> Floats:
    """Apply ``matrix`` along one axis, whose length becomes the matrix's rows."""
    return np.moveaxis(np.tensordot(matrix, cube, axes=(1, axis)), 0, axis)
