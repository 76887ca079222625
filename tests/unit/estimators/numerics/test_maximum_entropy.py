"""Check maximum-entropy tables against an independent solver."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from calmstream.estimators.numerics import maximum_entropy as reconstruct
from calmstream.estimators.numerics.maximum_entropy import maximum_entropy

CASES = {
    "cycle of pairs": ((2, 2, 2), [(0, 1), (1, 2), (0, 2)]),
    "chain": ((2, 3, 2), [(0, 1), (1, 2)]),
    "one pair and a single": ((3, 2, 2), [(0, 1), (2,)]),
    "an attribute nobody holds": ((2, 3, 2), [(0, 2)]),
    "triples": ((2, 2, 2, 2), [(0, 1, 2), (1, 2, 3), (0, 3)]),
}


@pytest.mark.parametrize("case", CASES)
def test_agrees_with_the_convex_dual(case: str) -> None:
    shape, constraints = CASES[case]
    truth = np.random.default_rng(len(case)).dirichlet(np.ones(int(np.prod(shape)))).reshape(shape)
    axes = range(len(shape))
    projections = [
        (h, truth.sum(axis=tuple(i for i in axes if i not in h)).ravel()) for h in constraints
    ]
    cell = np.indices(shape).reshape(len(shape), -1)
    rows, right = [], []
    for h, wanted in projections:
        index = np.ravel_multi_index(cell[list(h)], [shape[i] for i in h])
        rows.extend((index == c).astype(float) for c in range(len(wanted)))
        right.extend(wanted)
    a, b = np.array(rows), np.array(right)
    # The dual of maximum entropy: log-linear, minimise log-partition minus the expectations.
    dual = minimize(
        lambda u: np.logaddexp.reduce(a.T @ u) - b @ u,
        np.zeros(len(b)),
        jac=lambda u: a @ np.exp(a.T @ u - np.logaddexp.reduce(a.T @ u)) - b,
        method="BFGS",
        options={"gtol": 1e-10},
    )
    expected = np.exp(a.T @ dual.x - np.logaddexp.reduce(a.T @ dual.x))
    np.testing.assert_allclose(maximum_entropy(shape, projections), expected, atol=1e-6)


def test_zeros_are_kept() -> None:
    pair = np.array([0.5, 0.0, 0.0, 0.5])
    table = maximum_entropy((2, 2, 2), [((0, 1), pair), ((1, 2), pair)])
    np.testing.assert_allclose(table, [0.5, 0, 0, 0, 0, 0, 0, 0.5], atol=1e-12)


def test_pairs_without_a_common_table_still_give_a_distribution() -> None:
    same, differ = np.array([0.5, 0.0, 0.0, 0.5]), np.array([0.0, 0.5, 0.5, 0.0])
    constraints = [((0, 1), same), ((1, 2), same), ((0, 2), differ)]
    table = maximum_entropy((2, 2, 2), constraints)
    assert np.isfinite(table).all()
    assert table.min() >= 0.0
    assert table.sum() == pytest.approx(1.0)


def test_large_tables_are_fitted_like_small_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    shape = (3, 5, 2, 4)
    truth = np.random.default_rng(5).dirichlet(np.ones(120)).reshape(shape)
    sets = [(0, 1), (1, 3), (0, 2, 3), (2,), (0, 1, 2, 3)]
    projections = [
        (h, truth.sum(axis=tuple(i for i in range(4) if i not in h)).ravel()) for h in sets
    ]
    for some in (projections[:1], projections[:-1], projections[-1:]):
        small = maximum_entropy(shape, some)
        with monkeypatch.context() as patch:
            patch.setattr(reconstruct, "MANY_CELLS", 1)
            np.testing.assert_allclose(maximum_entropy(shape, some), small, atol=1e-12)
    np.testing.assert_allclose(small, truth.ravel(), atol=1e-12)
