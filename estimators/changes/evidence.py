"""What the reports on one view say about the interactions of a table, with exact covariance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calmstream.estimators.arrays import Floats, Indices
from calmstream.estimators.changes.basis import contrasts, positions
from calmstream.estimators.domain import Attributes, Domain
from calmstream.estimators.numerics.simplex import project
from calmstream.estimators.plan.counted import CountedView

SINGULAR = 1e-9  # eigenvalues below this share of the largest one count as 0
MAX_PLAIN_CELLS = 1 << 16


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """Unbiased estimates of combinations of coefficients: ``z = H theta + offset + noise``."""

    z: Floats  # (m,), as the offset
    offset: Floats
    precision: Floats  # pseudo-inverse of the covariance of z
    design: Floats | None  # H, (m, coefficients); None where it selects `places`
    places: Indices  # (m,)

    def expected(self, theta: Floats) -> Floats:
        held = theta[self.places] if self.design is None else self.design @ theta
        return np.asarray(held + self.offset)


@dataclass(frozen=True, slots=True)
class Part:
    """The part of a view that speaks about a target."""

    shape: tuple[int, ...]  # labels of the view's attributes; of another kind than `cell` its cells
    axes: tuple[int, ...]  # of that shape, those that are kept
    cells: int

    @property
    def basis(self) -> Floats:
        return contrasts(tuple(self.shape[j] for j in self.axes))


def part_of(own: CountedView, target: Attributes, domain: Domain) -> Part | None:
    """Return the part of a view that speaks about a table; None if it says nothing about it.

    A coefficient of attributes that are not all in the table says nothing about it, so other
    attributes are summed out, if the mechanism counts that. A view of another kind than ``cell``
    speaks about the table only if all its attributes are in it.
    """
    attributes = own.view.attributes
    if own.view.kind != "cell":
        small = domain.size(attributes) <= MAX_PLAIN_CELLS
        inside = set(attributes) <= set(target) and small
        cells = own.mechanism.cells
        return Part((cells,), (0,), cells) if inside else None
    axes = tuple(j for j, i in enumerate(attributes) if i in target)
    if not axes or not own.mechanism.holds(axes):
        return None
    shape = domain.shape(attributes)
    return Part(shape, axes, int(np.prod([shape[j] for j in axes])))


def covariance(own: CountedView, part: Part, expected: Floats) -> Floats:
    """Return the covariance of the coefficients' estimates: shape (cells - 1, cells - 1).

    If the reported frequencies are impossible, which few reports can be, the nearest possible ones
    take their place.
    """
    basis = part.basis
    spread = own.mechanism.table_covariance(own.n, expected, part.shape, part.axes)
    inner = basis.T @ spread @ basis
    if not _possible(inner):
        expected = project(expected)
        spread = own.mechanism.table_covariance(own.n, expected, part.shape, part.axes)
        inner = basis.T @ spread @ basis
    if own.repeats > 1.0:
        mean = basis.T @ expected
        sampling = (basis.T * np.maximum(expected, 0.0)) @ basis - np.outer(mean, mean)
        inner = inner + sampling * ((own.repeats - 1.0) / own.n)
    return inner


def evidence(
    own: CountedView, part: Part, target: Attributes, domain: Domain, z: Floats, precision: Floats
) -> Evidence:
    shape = domain.shape(target)
    if own.view.kind == "cell":
        common = tuple(target.index(own.view.attributes[j]) for j in part.axes)
        return Evidence(z, np.zeros(len(z)), precision, None, positions(shape, common))
    design, offset = _plain_design(own, part, target, domain)
    return Evidence(z, offset, precision, design, np.arange(0))


def inverse(matrix: Floats) -> Floats:
    """Return the pseudo-inverse of a covariance: singular directions have no precision."""
    values, vectors = np.linalg.eigh(matrix)
    kept = values > SINGULAR * max(float(values[-1]), 0.0)
    chosen = vectors[:, kept]
    found: Floats = (chosen / values[kept]) @ chosen.T
    return found


def _possible(matrix: Floats) -> bool:
    values = np.linalg.eigvalsh(matrix)
    return bool(values[0] > -SINGULAR * max(float(values[-1]), 1e-300))


def _plain_design(
    own: CountedView, part: Part, target: Attributes, domain: Domain
) -> tuple[Floats, Floats]:
    """Return H and offset of a view that maps records to few inputs: sums of cells."""
    attributes = own.view.attributes
    shape = domain.shape(attributes)
    codes = np.zeros((int(np.prod(shape)), len(domain)), np.uint16)
    for axis, values in zip(attributes, np.indices(shape).reshape(len(shape), -1), strict=True):
        codes[:, axis] = values
    inputs = own.view.inputs(codes, domain)
    held = np.zeros((part.cells, len(codes)))
    held[inputs, np.arange(len(codes))] = 1.0 / len(codes)
    rows = part.basis.T @ held
    common = tuple(target.index(i) for i in attributes)
    cells = int(np.prod(domain.shape(target)))
    design = np.zeros((len(rows), cells - 1))
    design[:, positions(domain.shape(target), common)] = rows @ contrasts(shape)
    return design, rows.sum(axis=1)
