"""P-values of many pairs of windows at once, by formulas of their own.

A view's estimate is linear in its counters, and the covariance of one report's estimate a linear
function of the table minus ``z z^T``: the inverse covariances of all windows come from a few array
operations. The product is asked where the statistic is not regular.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from calmstream.estimators.arrays import Counts, Floats
from calmstream.estimators.changes import Source, compare
from calmstream.estimators.changes.basis import contrasts, positions
from calmstream.estimators.changes.evidence import SINGULAR
from calmstream.estimators.changes.readings import MIN_EXPECTED, MIN_PER_CELL, MIN_UNEVEN, UNEVEN
from calmstream.estimators.domain import Attributes, Domain
from calmstream.estimators.mechanisms.base import Mechanism
from calmstream.estimators.plan.counted import CountedView
from calmstream.estimators.view import View

Flags = NDArray[np.bool_]
Axes = tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    domain: Domain  # attributes of a record
    views: tuple[tuple[Mechanism, View], ...]  # mechanism and view of every view
    reports: Counts  # shape (windows, views)
    counts: tuple[Counts, ...]  # per view, shape (windows, width)

    def __len__(self) -> int:
        return len(self.reports)

    def source(self, window: int) -> Source:
        own = zip(self.views, self.reports[window], self.counts, strict=True)
        return Source(
            self.domain,
            tuple(CountedView(v, m, int(n), counts[window]) for (m, v), n, counts in own),
        )

    def sources(self) -> Iterator[Source]:
        return map(self.source, range(len(self)))


def p_values(first: Windows, second: Windows, targets: Sequence[Attributes]) -> Floats:
    """Return the p-values of each pair of windows: shape (windows, tables); nan without a test."""
    batch = _Batch(first, second)
    p = np.full((len(first), len(targets)), np.nan)
    for column, target in enumerate(targets):
        p[:, column], regular = batch.test(target)
        for i in np.flatnonzero(~regular).tolist():
            found = compare(first.source(i), second.source(i), [target], details=False).tables[0]
            p[i, column] = np.nan if found.p is None else found.p
    return p


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """What a view says about some of its attributes, in all windows."""

    z: Floats  # coefficients of both sides: shape (2, windows, m)
    precision: Floats  # inverse of their covariance for one report: shape (windows, m, m)
    # least expected count of an event on the side with fewer reports: shape (windows,)
    least: Floats
    regular: Flags  # whether the precision holds: shape (windows,)


class _Batch:
    """Pairs of windows; what several tables need is computed once."""

    def __init__(self, first: Windows, second: Windows) -> None:
        self._sides = first, second
        self._parts: dict[tuple[int, Axes], _Part] = {}

    def test(self, target: Attributes) -> tuple[Floats, Flags]:
        """Return the p-values of a table, and where they hold: shapes (windows,)."""
        one = self._sides[0]
        shape = one.domain.shape(target)
        size = int(np.prod(shape)) - 1
        windows = len(one)
        information = np.zeros((2, windows, size, size))
        score = np.zeros((2, windows, size))
        regular = np.full(windows, all(view.kind == "cell" for _, view in one.views))
        covered = np.zeros(size, bool)
        for number, (_, view) in enumerate(one.views):
            axes = tuple(j for j, i in enumerate(view.attributes) if i in target)
            if not axes or not regular.any():
                continue
            part = self._part(number, axes)
            places = positions(shape, tuple(target.index(view.attributes[j]) for j in axes))
            reports = np.stack([side.reports[:, number] for side in self._sides])
            uneven = reports.max(axis=0) > UNEVEN * reports.min(axis=0)
            regular &= part.regular & (part.least >= np.where(uneven, MIN_UNEVEN, MIN_EXPECTED))
            covered[places] = True
            precision = reports[:, :, None, None] * part.precision
            information[:, :, places[:, None], places] += precision
            score[:, :, places] += np.einsum("swij,swj->swi", precision, part.z)
        p = np.full(windows, np.nan)
        if regular.any() and covered.any():
            held = np.flatnonzero(covered)
            chosen = information[:, regular][:, :, held[:, None], held]
            p[regular] = _chi_square(chosen, score[:, regular][:, :, held])
        return p, regular

    def _part(self, number: int, axes: Axes) -> _Part:
        if (number, axes) not in self._parts:
            self._parts[number, axes] = self._read(number, axes)
        return self._parts[number, axes]

    def _read(self, number: int, axes: Axes) -> _Part:
        domain = self._sides[0].domain
        mechanism, view = self._sides[0].views[number]
        shape = domain.shape(view.attributes)
        model = _model(mechanism, shape, axes)
        reports = np.stack([side.reports[:, number] for side in self._sides])
        counts = np.stack([side.counts[number] for side in self._sides])
        z = model.table(counts, reports) @ model.basis
        table = model.table(counts.sum(axis=0), reports.sum(axis=0))
        inner = model.covariance(table)
        values = np.linalg.eigvalsh(inner)
        regular = (values[:, 0] > 1e3 * SINGULAR * values[:, -1]) & (reports > 0).all(axis=0)
        regular &= reports.sum(axis=0) >= MIN_PER_CELL * table.shape[1]
        inner[~regular] = np.eye(inner.shape[1])
        rarest = np.array([mechanism.rarest(t, shape, axes) for t in table])
        return _Part(z, np.linalg.inv(inner), rarest * reports.min(axis=0), regular)


@dataclass(frozen=True, slots=True, eq=False)
class _Model:
    """Estimate and covariance of a part of a view."""

    slope: Floats  # the table of each counter if every report counts there: shape (width, cells)
    offset: Floats  # the table without a count: shape (cells,)
    basis: Floats  # contrasts of the cells: shape (cells, m)
    constant: Floats  # covariance of one report for the table 0: shape (m, m)
    moments: Floats  # what each cell adds to it, apart from minus ``z z^T``: shape (cells, m, m)

    def table(self, counts: Counts, reports: Counts) -> Floats:
        """Return estimated tables: shape (..., cells)."""
        return np.asarray(counts @ self.slope / np.maximum(reports, 1)[..., None] + self.offset)

    def covariance(self, table: Floats) -> Floats:
        """Return the covariance of one report's coefficients: shape (windows, m, m)."""
        z = table @ self.basis
        linear = np.tensordot(table, self.moments, axes=1)
        return np.asarray(self.constant + linear - z[:, :, None] * z[:, None, :])


@lru_cache(maxsize=1024)
def _model(mechanism: Mechanism, shape: tuple[int, ...], axes: Axes) -> _Model:
    basis = contrasts(tuple(shape[j] for j in axes))
    counters = 2 * np.eye(mechanism.width, dtype=np.int64)
    offset = mechanism.table(0 * counters[0], 2, shape, axes)
    slope = np.stack([mechanism.table(c, 2, shape, axes) for c in counters]) - offset

    def moment(table: Floats) -> Floats:
        z = table @ basis
        spread = mechanism.table_covariance(1, table, shape, axes)
        return np.asarray(basis.T @ spread @ basis + np.outer(z, z))

    cells = np.eye(len(basis))
    constant = moment(0.0 * cells[0])
    moments = np.stack([moment(cell) for cell in cells]) - constant
    return _Model(slope, offset, basis, constant, moments)


def _chi_square(information: Floats, score: Floats) -> Floats:
    """Return the p-values of the difference of both sides' best estimates: shape (windows,)."""
    covariances = np.linalg.inv(information)
    theta = np.einsum("swij,swj->swi", covariances, score)
    moved = theta[0] - theta[1]
    solved = np.linalg.solve(covariances.sum(axis=0), moved[..., None])[..., 0]
    return np.asarray(stats.chi2.sf((moved * solved).sum(axis=1), moved.shape[1]))
