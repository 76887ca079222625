from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

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
