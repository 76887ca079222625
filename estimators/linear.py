"""Models whose raw answers are linear in the counters: unbiased tables with exact covariances.

A method defines the raw table and its covariance. Published are the nearest distribution to the raw
table and the raw table's standard errors.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from estimators.errors import InvalidInput
from estimators.marginal import Marginal, is_noise, uniform
from estimators.numerics.simplex import project

if TYPE_CHECKING:
    from collections.abc import Sequence

    from estimators.domain import Attributes, Domain

Floats = NDArray[np.float64]

MAX_QUERY_CELLS = 1 << 22
"""Largest table that is answered."""

MAX_COVARIANCE_CELLS = 1 << 12
"""Largest table whose full covariance is formed."""

MOVED = 0.5
"""A cell counts as clipped when it was moved by more than this many standard errors."""


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """One raw answer.

    Attributes:
        table: shape (cells,), unbiased, may be negative, need not sum to 1.
        variance: shape (cells,), of each cell.
        reports: number of reports that it rests on; 0 makes the answer uniform.
    """

    table: Floats
    variance: Floats
    reports: int


class LinearModel(ABC):
    """A fitted model; see :class:`estimators.methods.base.Model`.

    Attributes:
        processing: the steps from raw estimates to answers.
    """

    everyone: ClassVar[bool] = False
    processing: ClassVar[tuple[str, ...]] = ("non-negativity, total 1, table by table",)

    def __init__(self, domain: Domain) -> None:
        self._domain = domain

    @abstractmethod
    def estimate(self, attributes: Attributes) -> Estimate:
        """The raw answer over ascending positions.

        Raises:
            InvalidInput: the plan does not collect what this marginal needs.
        """

    @abstractmethod
    def covariance(self, attributes: Attributes) -> Floats:
        """Covariance of the cells of `unclipped`: shape (cells, cells), at most 2^12 cells.

        Mechanism noise and the sampling of devices into views; for a method in which every device
        reports on everything, mechanism noise alone.

        Raises:
            InvalidInput: as `estimate`, or too many cells.
        """

    def marginal(self, attributes: Attributes) -> Marginal:
        """The nearest distribution to the raw table; flags ``covered``, ``clipped``, ``noise``.

        Raises:
            InvalidInput: as `estimate`, or more than 2^22 cells.
        """
        cells = self._check(attributes, MAX_QUERY_CELLS)
        found = self.estimate(attributes)
        if found.reports == 0:
            return uniform(attributes, cells)
        stderr = np.sqrt(found.variance)
        table = project(found.table[None])[0]
        flags = ["covered"]
        if (np.abs(table - found.table) > MOVED * stderr).any():
            flags.append("clipped")
        if is_noise(table, stderr):
            flags.append("noise")
        return Marginal(attributes, table, stderr, found.reports, tuple(flags))

    def unclipped(self, attributes: Attributes) -> Floats:
        """Return the raw table: shape (cells,), unbiased, may be negative.

        Raises:
            InvalidInput: as `marginal`.
        """
        self._check(attributes, MAX_QUERY_CELLS)
        return self.estimate(attributes).table

    def _check(self, attributes: Attributes, limit: int) -> int:
        cells = self._domain.size(attributes)
        if cells > limit:
            raise InvalidInput(f"a table of {cells:,} cells; at most {limit:,} are made")
        return cells


def require_at_most(k: int, attributes: Attributes, domain: Domain, method: str) -> None:
    """Check that a marginal has no more attributes than the plan is made for.

    Raises:
        InvalidInput: naming them.
    """
    if len(attributes) > k:
        names = ", ".join(domain.names[i] for i in attributes)
        raise InvalidInput(
            f"method {method} was planned for marginals of at most {k} attributes; "
            f"nothing was collected about {names} together"
        )


def collapse(matrix: Floats, into: NDArray[np.int64], cells: int) -> Floats:
    """Sum rows by target cell: shape (cells, columns)."""
    out = np.zeros((cells, matrix.shape[1]))
    np.add.at(out, into, matrix)
    return out


def dense(diagonal: Floats, factors: Floats) -> Floats:
    """``diag(diagonal) - factors factors^T`` in full: shape (cells, cells)."""
    full: Floats = np.diag(diagonal) - factors @ factors.T
    return full


def even_counts(users: int, shares: Sequence[int]) -> NDArray[np.int64]:
    """Reports expected per view, at least 1: shape (views,), int64."""
    weights = np.asarray(shares, np.float64)
    counts: NDArray[np.int64] = np.rint(users * weights / weights.sum()).astype(np.int64)
    return np.maximum(counts, 1)
