"""The projection onto the simplex against Norm-Sub, the iterative rule of the literature."""

from __future__ import annotations

import numpy as np
import pytest

from calmstream.estimators.arrays import Floats
from calmstream.estimators.numerics.simplex import project


def norm_sub(table: Floats) -> Floats:
    out = table.copy()
    positive = np.ones(len(out), bool)
    for _ in range(len(out) + 1):
        out[positive] -= (out[positive].sum() - 1.0) / positive.sum()
        if (out[positive] >= 0).all():
            break
        positive &= out > 0
        out[~positive] = 0.0
    return out


@pytest.mark.parametrize("cells", [2, 3, 8, 240])
@pytest.mark.parametrize("scale", [0.01, 0.3, 5.0])
def test_equals_norm_sub(cells: int, scale: float) -> None:
    generator = np.random.default_rng(cells)
    tables = generator.dirichlet(np.ones(cells), 50) + generator.normal(0, scale, (50, cells))
    np.testing.assert_allclose(project(tables), [norm_sub(t) for t in tables], atol=1e-12)


def test_extremes() -> None:
    np.testing.assert_array_equal(
        project(np.array([[-5.0, -5.0], [1e9, 0.0]])), [[0.5, 0.5], [1, 0]]
    )
    assert project(np.zeros((0, 4))).shape == (0, 4)
