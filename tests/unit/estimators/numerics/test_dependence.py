from __future__ import annotations

from math import inf

import numpy as np
import pytest

from calmstream.estimators.arrays import Floats
from calmstream.estimators.numerics.dependence import cramers_v, cramers_v_error

SHAPES = [(2, 2), (3, 4), (5, 2)]


def dependent(shape: tuple[int, int], seed: int) -> Floats:
    cells = np.random.default_rng(seed).dirichlet(np.full(shape[0] * shape[1], 2.0)).reshape(shape)
    for i in range(min(shape)):
        cells[i, i] += 0.3
    return cells / cells.sum()


@pytest.mark.parametrize("noise", [0.0, 1e-6, 1e-3], ids=["exact", "small", "above the cells"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("total", [1.0, 3.0])
def test_the_error_of_one_direction_is_the_derivative(
    shape: tuple[int, int], noise: float, total: float
) -> None:
    """V moves by its derivative where all error is along one direction."""
    table = dependent(shape, 3)
    variance = np.full(shape, noise)
    for seed in range(4):
        along = np.random.default_rng(seed).normal(size=shape)
        along -= table * along.sum()  # the sum stays: the noise is relative to it
        step = 1e-6
        sides = [cramers_v(table + s * step * along, variance) for s in (1, -1)]
        derivative = abs(sides[0] - sides[1]) / (2 * step)
        covariance = np.outer(along, along) * total**2
        found = cramers_v_error(total * table, covariance, variance * total**2)
        assert found == pytest.approx(derivative, rel=1e-4)


def test_without_dependence_there_is_no_error_to_state() -> None:
    assert cramers_v_error(np.full((2, 2), 0.25), np.eye(4)) == inf
