"""The result of an estimation: one marginal table with its standard errors, and error measures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from calmstream.estimators.arrays import Floats
from calmstream.estimators.domain import Attributes

MAX_QUERY_CELLS = 1 << 22  # of a table that is answered; it limits time and memory
MAX_COVARIANCE_CELLS = 1 << 12  # of a table whose full covariance is computed (128 MiB)
CLIPPED_STDERRS = 0.5  # a cell counts as clipped if its correction is larger, in standard errors
Z95 = 1.96  # half the width of a 95 % interval, in standard errors


@dataclass(frozen=True, slots=True, eq=False)
class Marginal:
    """An estimated joint distribution of a few attributes.

    Attributes:
        attributes: positions of the attributes, ascending.
        table: shape (cells,), float64, row-major over the attributes (last one fastest). It is a
            distribution (non-negative, sum 1), unless the flag ``raw`` is set.
        stderr: shape (cells,), float64: standard error of each cell before negative cells are
            corrected, from the noise of the mechanism and the sampling of devices into groups.
        reports: number of reports that contain information about these attributes.
        flags: properties of the table that a reader must know: ``covered``, ``maxent``,
            ``modelled``, ``clipped``, ``noise``, ``uniform``, ``raw``; see
            docs/reading-a-snapshot.md.
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
    """Return whether the noise is too large for a table to be informative.

    The noise floor is the expected sum of squared errors. It is too large if it is above the
    squared distance of the table from the uniform one, or above an eighth of ``1 - 1 / cells``, the
    largest such distance: then a few reports that agree by chance could give any table.
    """
    floor = float(np.square(stderr).sum())
    even = 1.0 / table.size
    return floor > min(float(np.square(table - even).sum()), (1.0 - even) / 8.0)


def flagged(
    attributes: Attributes,
    table: Floats,
    stderr: Floats,
    reports: int,
    flags: Sequence[str],
    *,
    clipped: bool,
) -> Marginal:
    """Return a marginal with these flags, and with ``clipped`` and ``noise`` where they apply."""
    more = ["clipped"] * clipped + ["noise"] * is_noise(table, stderr)
    return Marginal(attributes, table, stderr, reports, (*flags, *more))


def uniform(attributes: Attributes, cells: int) -> Marginal:
    """Return the uniform table, the answer if no report has information about the attributes.

    The standard error of a cell is its standard deviation if all mass is in one cell, any of them.
    """
    share = 1.0 / cells
    stderr = np.full(cells, np.sqrt(share * (1.0 - share)))
    return Marginal(attributes, np.full(cells, share), stderr, 0, ("uniform",))


def sse(table: Floats, truth: Floats) -> float:
    """Return the sum over cells of the squared error, the measure of CALM's paper."""
    return float(np.square(table - truth).sum())


def total_variation(table: Floats, truth: Floats) -> float:
    """Return half the sum of absolute differences, the measure of Cormode et al."""
    return float(np.abs(table - truth).sum() / 2)


def inside(table: Floats, stderr: Floats, truth: Floats) -> Floats:
    """Return whether each true cell lies in its 95 % interval, table ± 1.96 stderr: 1 or 0."""
    return np.asarray(np.abs(table - truth) <= Z95 * stderr + 1e-12, np.float64)


def largest_error(table: Floats, truth: Floats) -> float:
    """Return the largest absolute error of a cell; its mean over marginals is Castell's AVD."""
    return float(np.abs(table - truth).max())
