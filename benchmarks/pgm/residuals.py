"""Solve the problem of GReM-LNN, a second method to compare with, also for 32 attributes.

GReM-LNN (Mullins et al., NeurIPS 2024) reconstructs tables from *residuals*. The residual of a set
of attributes is the part of a table that no smaller set determines. The fit minimises the squared
distances to the measured residuals, each divided by its variance, under the condition that no cell
of a view or of a target is negative.

The authors' program takes up to 4,000 steps, and a step at our size takes it seconds. This module
solves the same problem with one sparse matrix and accelerated steps, until the answers stand still.
`benchmarks.pgm.residuals_check` compares both programs on a small domain.

A residual that no view holds has the value zero with a variance that must be chosen. The authors'
program takes one half, where the standard deviation of a measured residual of k attributes is 2^k.
Where many residuals are not measured, a large variance gives smaller errors (`UNSEEN_VARIANCES`).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import chain, combinations
from math import sqrt

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from benchmarks.pgm.problem import Measurement, Problem
from calmstream.estimators.domain import Attributes, Domain

Floats = NDArray[np.float64]

STEPS = 5000
"""Most steps of a fit."""

EVERY = 100
"""Steps between two looks at the tables."""

TOLERANCE = 1e-5
"""A fit ends when no share changes by as much between two looks and none is as far below zero."""

UNSEEN_VARIANCES = {"GReM-LNN": 0.5, "GReM-LNN, unseen residuals free": 4096.0}
"""Variances of a residual that no view holds; a measured one of k attributes has about 4^k."""

SIZES = (2, 3)
"""Numbers of attributes of the targets."""


@dataclass(frozen=True, eq=False)
class Fitted:
    """The reconstructed tables.

    Attributes:
        tables: shares of the devices by attribute set: the views' and the targets', row-major.
        steps: number of steps of the fit.
        lowest: smallest cell of any table; about zero or above.
    """

    tables: dict[Attributes, Floats]
    steps: int
    lowest: float


def answers(problem: Problem, unseen: float) -> dict[str, object]:
    """Return the errors, processor seconds and steps of a fit.

    Args:
        problem: the inputs.
        unseen: variance of a residual that no view holds.
    """
    targets = {k: problem.targets[k] for k in SIZES}
    started = time.process_time()
    fitted = fit(problem.plan.domain, problem.measurements, chain(*targets.values()), unseen)
    spent = time.process_time() - started
    tables = {k: [fitted.tables[one] for one in asked] for k, asked in targets.items()}
    ended = {"steps": fitted.steps, "lowest": fitted.lowest}
    return {"errors": problem.errors(tables), "fit": spent} | ended


def fit(
    domain: Domain,
    measured: Sequence[Measurement],
    targets: Iterable[Attributes],
    unseen: float,
) -> Fitted:
    """Reconstruct the tables of the views and of the targets.

    The total is known: the shares of every table sum to one. Cost: one product with a sparse matrix
    of (cells of all tables) x (cells of their residuals) and one with its transpose a step.

    Args:
        domain: the domain.
        measured: one noisy table a view; tables of the same attributes count with their precision.
        targets: attribute sets whose tables are wanted.
        unseen: variance of a residual that no view holds.
    """
    wanted = sorted({m.attributes for m in measured} | set(targets))
    residuals = sorted({s for one in wanted for s in subsets(one)}, key=lambda s: (len(s), s))
    values, variances = _residuals(domain, measured, residuals, unseen)
    matrix = _matrix(domain, wanted, residuals)
    shares, steps = _nonnegative(matrix, values, variances)
    ends = np.cumsum([domain.size(one) for one in wanted])[:-1]
    tables = dict(zip(wanted, np.split(shares, ends), strict=True))
    return Fitted(tables, steps, float(shares.min()))


def subsets(attributes: Attributes) -> Iterable[Attributes]:
    """Yield all subsets, with the empty one and the set itself."""
    sizes = range(len(attributes) + 1)
    return chain.from_iterable(combinations(attributes, size) for size in sizes)


def contrasts(labels: int) -> Floats:
    """Return an orthonormal basis of vectors that sum to zero: shape (labels, labels - 1)."""
    basis = np.zeros((labels, labels - 1))
    for j in range(labels - 1):
        basis[: j + 1, j] = 1
        basis[j + 1, j] = -(j + 1)
        basis[:, j] /= sqrt((j + 1) * (j + 2))
    return basis


def _residuals(
    domain: Domain,
    measured: Sequence[Measurement],
    residuals: Sequence[Attributes],
    unseen: float,
) -> tuple[list[Floats], Floats]:
    """Return each residual's value, in the basis of contrasts, and its variance.

    The variances are scaled so that a measured residual of k attributes has 4^k in the geometric
    mean; the value of the empty set is the total, with variance zero.
    """
    sums: dict[Attributes, Floats] = {}
    precisions: dict[Attributes, float] = {}
    for m in measured:
        for one in subsets(m.attributes):
            value, count = _component(domain, m, one)
            precision = 1 / (m.deviation**2 * count)
            sums[one] = sums.get(one, np.zeros(len(value))) + precision * value
            precisions[one] = precisions.get(one, 0.0) + precision
    seen = [one for one in residuals if one and one in precisions]
    scale = np.exp(np.mean([-np.log(precisions[one] * 4.0 ** len(one)) for one in seen]))
    values, variances = [], []
    for one in residuals:
        if not one:
            values.append(np.ones(1))
            variances.append(0.0)
        elif one in precisions:
            values.append(sums[one] / precisions[one])
            variances.append(1 / (precisions[one] * scale))
        else:
            values.append(np.zeros(_length(domain, one)))
            variances.append(unseen)
    return values, np.array(variances)


def _component(domain: Domain, m: Measurement, part: Attributes) -> tuple[Floats, int]:
    """Return a measured table's residual, and the number of cells that each entry sums over."""
    table = m.table.reshape([domain.cardinalities[i] for i in m.attributes])
    count = 1
    for axis, i in reversed(list(enumerate(m.attributes))):
        if i in part:
            basis = contrasts(domain.cardinalities[i])
            table = np.moveaxis(np.tensordot(table, basis, (axis, 0)), -1, axis)
        else:
            table = table.sum(axis=axis)
            count *= domain.cardinalities[i]
    return np.atleast_1d(table).ravel(), count


def _length(domain: Domain, residual: Attributes) -> int:
    return int(np.prod([domain.cardinalities[i] - 1 for i in residual], dtype=int))


def _matrix(
    domain: Domain, wanted: Sequence[Attributes], residuals: Sequence[Attributes]
) -> sparse.csr_matrix:
    """Return the matrix that makes all tables of all residuals."""
    columns = {one: number for number, one in enumerate(residuals)}
    blocks: list[list[sparse.coo_matrix | None]] = []
    for one in wanted:
        row: list[sparse.coo_matrix | None] = [None] * len(residuals)
        for part in subsets(one):
            factors = [
                contrasts(c) if i in part else np.full((c, 1), 1 / c)
                for i, c in ((i, domain.cardinalities[i]) for i in one)
            ]
            row[columns[part]] = sparse.coo_matrix(reduce(np.kron, factors, np.ones((1, 1))))
        blocks.append(row)
    return sparse.bmat(blocks, format="csr")


def _nonnegative(
    matrix: sparse.csr_matrix, values: Sequence[Floats], variances: Floats
) -> tuple[Floats, int]:
    """Return all tables of the closest residuals without negative cells, and the number of steps.

    Accelerated projected ascent of the dual problem: one multiplier, at least zero, for each cell.
    The momentum starts again whenever it points downhill.
    """
    value = np.concatenate(values)
    variance = np.repeat(variances, [len(one) for one in values])
    transposed = matrix.T.tocsr()
    step = 1 / _largest(matrix, transposed, variance)
    multipliers = ahead = np.zeros(matrix.shape[0])
    momentum, before = 1.0, np.full(matrix.shape[0], np.inf)
    for number in range(1, STEPS + 1):
        tables = matrix @ (value + variance * (transposed @ ahead))
        following = np.maximum(ahead - step * tables, 0)
        if (ahead - following) @ (following - multipliers) > 0:
            momentum = 1.0
        later = (1 + sqrt(1 + 4 * momentum**2)) / 2
        ahead = following + (momentum - 1) / later * (following - multipliers)
        multipliers, momentum = following, later
        if number % EVERY == 0:
            tables = matrix @ (value + variance * (transposed @ multipliers))
            if np.abs(tables - before).max() < TOLERANCE and tables.min() > -TOLERANCE:
                break
            before = tables
    return tables, number


def _largest(matrix: sparse.csr_matrix, transposed: sparse.csr_matrix, variance: Floats) -> float:
    """Return a bound of the largest curvature of the dual problem, by 100 power iterations."""
    vector = np.random.default_rng(0).random(matrix.shape[0])
    size = 1.0
    for _ in range(100):
        vector = matrix @ (variance * (transposed @ vector))
        size = float(np.linalg.norm(vector))
        vector /= size
    return 1.05 * size
