"""The result: one marginal table with its uncertainty."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from estimators.domain import Attributes

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Marginal:
    """An estimated joint distribution of a few attributes.

    Attributes:
        attributes: positions, ascending.
        table: shape (cells,), float64, row-major over the attributes (last one fastest). Valid
            distributions (non-negative, sum 1) unless the method says otherwise in ``flags``.
        stderr: shape (cells,), float64: standard error of each cell before clipping, from mechanism
            noise and from the sampling of users into groups.
        reports: number of reports that speak about these attributes.
        flags: what a reader must know, of the closed list below.

    Flags: ``covered`` (some view holds all attributes), ``maxent`` (reconstructed from views that
    each hold only some of them: its error also has a part that no formula knows), ``modelled``
    (a posterior's mean, and its deviation, which holds that part too), ``clipped``
    (non-negativity was enforced, so the standard errors are upper bounds near zero), ``noise``
    (`is_noise`: read nothing into it), ``uniform`` (no report spoke about it), ``raw`` (may be
    negative, need not sum to 1).
    """

    attributes: Attributes
    table: Floats
    stderr: Floats
    reports: int
    flags: tuple[str, ...] = ()

    @property
    def noise_floor(self) -> float:
        """Expected sum of squared errors from noise and sampling alone: sum of stderr squared."""
        return float(np.square(self.stderr).sum())


def is_noise(table: Floats, stderr: Floats) -> bool:
    """Return whether the noise floor is too high for a table to be informative.

    It does above the table's own squared distance from the uniform one, and above an eighth of
    ``1 - 1 / cells``, the most that any distribution has: two standard errors of the table then
    reach 0.7 of that distance, and a handful of reports that happen to agree is no claim either.
    """
    floor = float(np.square(stderr).sum())
    even = 1.0 / table.size
    return floor > min(float(np.square(table - even).sum()), (1.0 - even) / 8.0)


def uniform(attributes: Attributes, cells: int) -> Marginal:
    """Return the answer where no view with reports holds any of the attributes.

    The standard error is a cell's spread if all mass lay in one cell, any cell being as likely.
    """
    share = 1.0 / cells
    stderr = np.full(cells, np.sqrt(share * (1.0 - share)))
    return Marginal(attributes, np.full(cells, share), stderr, 0, ("uniform",))


def sse(table: Floats, truth: Floats) -> float:
    """Return the sum over cells of squared error (CALM's measure)."""
    return float(np.square(table - truth).sum())


def total_variation(table: Floats, truth: Floats) -> float:
    """Return half the L1 distance (Cormode et al.'s measure)."""
    return float(np.abs(table - truth).sum() / 2)


def largest_error(table: Floats, truth: Floats) -> float:
    """Return the largest absolute error of a cell; its mean over subsets is Castell's AVD."""
    return float(np.abs(table - truth).max())
