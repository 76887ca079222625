"""Check consistent tables against an independent dense weighted least-squares solution."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from calmstream.estimators.arrays import Floats
from calmstream.estimators.numerics.consistency import (
    ConsistencyStructure,
    harmonise,
    projection,
    reconcile,
    structure,
)

Views = tuple[tuple[int, ...], ...]

FAMILIES: dict[str, tuple[Views, tuple[int, ...]]] = {
    "all pairs, binary": (tuple(combinations(range(5), 2)), (2,) * 5),
    "all triples, binary": (tuple(combinations(range(5), 3)), (2,) * 5),
    "mixed cardinalities": (((0, 1, 2), (1, 2, 3), (0, 3), (2, 3)), (3, 2, 4, 5)),
    "unequal sizes": (((0, 1, 2, 3), (0,), (1, 2), (3, 4), (4,)), (2, 3, 2, 2, 3)),
    "disjoint": (((0, 1), (2, 3)), (2, 3, 2, 2)),
    "the same twice": (((0, 1), (0, 1), (1, 2)), (2, 3, 2)),
    "only nested": (((0, 1, 2), (0, 1), (0,)), (2, 2, 3)),
    "one": (((0, 2),), (4, 2, 3)),
}


@pytest.fixture(params=FAMILIES)
def shared(request: pytest.FixtureRequest) -> ConsistencyStructure:
    return structure(*FAMILIES[request.param])


def noisy(shared: ConsistencyStructure, scale: float, seed: int) -> tuple[Floats, Floats]:
    """Return tables of one true distribution plus noise, and unequal precisions."""
    generator = np.random.default_rng(seed)
    domain = tuple(range(len(shared.cardinalities)))
    truth = generator.dirichlet(np.full(int(np.prod(shared.cardinalities)), 0.2))
    tables = [
        np.bincount(projection(domain, view, shared.cardinalities), truth) for view in shared.views
    ]
    flat = np.concatenate(tables)
    return flat + generator.normal(0, scale, len(flat)), generator.uniform(0.1, 10, len(tables))


def constraints(shared: ConsistencyStructure) -> tuple[Floats, Floats]:
    """Return all equations of consistency, one per pair of views and common cell."""
    rows, right = [], []
    total = int(shared.offsets[-1])
    for v in range(len(shared.views)):
        row = np.zeros(total)
        row[shared.offsets[v] : shared.offsets[v + 1]] = 1
        rows.append(row)
        right.append(1.0)
    for (v, a), (w, b) in combinations(enumerate(shared.views), 2):
        both = tuple(sorted(set(a) & set(b)))
        if not both:
            continue
        left = projection(a, both, shared.cardinalities)
        other = projection(b, both, shared.cardinalities)
        for cell in range(left.max() + 1):
            row = np.zeros(total)
            row[shared.offsets[v] : shared.offsets[v + 1]] = left == cell
            row[shared.offsets[w] : shared.offsets[w + 1]] -= other == cell
            rows.append(row)
            right.append(0.0)
    return np.array(rows), np.array(right)


def test_one_pass_is_the_weighted_least_squares_projection(shared: ConsistencyStructure) -> None:
    flat, precision = noisy(shared, 0.3, 1)
    a, b = constraints(shared)
    inverse = 1.0 / np.repeat(precision, np.diff(shared.offsets))
    # Minimise sum precision · change² subject to a · x = b, by the normal equations.
    # The equations are redundant: with a cutoff at the last bit the library would decide the rank.
    multiplier = np.linalg.pinv(a * inverse @ a.T, 1e-10) @ (a @ flat - b)
    expected = flat - inverse * (a.T @ multiplier)
    harmonised, gap = harmonise(shared, flat, precision)
    np.testing.assert_allclose(harmonised, expected, atol=1e-12)
    assert gap > 1e-3


@pytest.mark.parametrize("scale", [0.001, 0.1, 3.0])
def test_reconciled_tables_agree_and_are_distributions(
    shared: ConsistencyStructure, scale: float
) -> None:
    flat, precision = noisy(shared, scale, 3)
    tables = reconcile(shared, flat, precision)
    a, b = constraints(shared)
    assert np.abs(a @ tables - b).max() < 1e-9
    assert tables.min() >= 0.0
    sums = np.add.reduceat(tables, shared.offsets[:-1])
    np.testing.assert_allclose(sums, 1.0, atol=1e-12)


def test_projection_numbers_cells_row_major() -> None:
    grid = np.arange(24.0).reshape(2, 3, 4)
    into = projection((1, 4, 6), (1, 6), (9, 2, 9, 9, 3, 9, 4))
    np.testing.assert_array_equal(np.bincount(into, grid.ravel()), grid.sum(axis=1).ravel())
