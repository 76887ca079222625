"""The base class of models whose raw tables are linear in the counters, with exact covariances.

The published table is the distribution nearest to the raw table, with its standard errors.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from calmstream.common.errors import InvalidInput
from calmstream.estimators.arrays import Floats
from calmstream.estimators.domain import Attributes, Domain
from calmstream.estimators.marginal import (
    CLIPPED_STDERRS,
    MAX_QUERY_CELLS,
    Marginal,
    flagged,
    uniform,
)
from calmstream.estimators.mechanisms.base import Mechanism
from calmstream.estimators.numerics.simplex import project


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """One raw table (cells,), unbiased, with the variance of each cell; uniform without reports."""

    table: Floats
    variance: Floats
    reports: int


class LinearModel(ABC):
    """A fitted model that answers from raw tables (`LinearAnswers`)."""

    everyone: ClassVar[bool] = False
    processing: ClassVar[tuple[str, ...]] = ("non-negativity, total 1, table by table",)

    def __init__(self, domain: Domain) -> None:
        self._domain = domain

    @abstractmethod
    def estimate(self, attributes: Attributes) -> Estimate:
        """Return the raw table over ascending positions of attributes."""

    @abstractmethod
    def covariance(self, attributes: Attributes) -> Floats:
        """Return the covariance of `unclipped`, with devices' sampling unless `everyone`."""

    def marginal(self, attributes: Attributes) -> Marginal:
        cells = self._check(attributes, MAX_QUERY_CELLS)
        raw = self.estimate(attributes)
        if raw.reports == 0:
            return uniform(attributes, cells)
        stderr = np.sqrt(raw.variance)
        table = project(raw.table)
        clipped = bool((np.abs(table - raw.table) > CLIPPED_STDERRS * stderr).any())
        return flagged(attributes, table, stderr, raw.reports, ("covered",), clipped=clipped)

    def unclipped(self, attributes: Attributes) -> Floats:
        self._check(attributes, MAX_QUERY_CELLS)
        return self.estimate(attributes).table

    def _check(self, attributes: Attributes, limit: int) -> int:
        """Return the number of cells, after the check that it is at most ``limit``."""
        cells = self._domain.size(attributes)
        if cells > limit:
            raise InvalidInput(f"a table of {cells:,} cells is too large; at most {limit:,}")
        return cells


def precisions(mechanisms: Sequence[Mechanism]) -> Floats:
    """Return the inverse of the sum of the cells' variances with one report: (mechanisms,)."""
    each = {m: 1.0 / float(m.variance(1).sum()) for m in set(mechanisms)}
    return np.array([each[m] for m in mechanisms])


def require_at_most(k: int, attributes: Attributes, domain: Domain, method: str) -> None:
    if len(attributes) > k:
        names = ", ".join(domain.names[i] for i in attributes)
        raise InvalidInput(
            f"method {method} was planned for marginals of at most {k} attributes; "
            f"nothing was collected about {names} together"
        )
