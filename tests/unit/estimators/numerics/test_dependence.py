"""The standard error of Cramér's V, against derivatives by differences and against drawn tables."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest

from calmstream.estimators.numerics.dependence import Floats, cramers_v, cramers_v_error

SHAPES = [(2, 2), (3, 4), (5, 2)]


def dependent(shape: tuple[int, int], seed: int) -> Floats:
    """Return a table with a clear dependence."""
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


@pytest.mark.parametrize("shape", SHAPES)
def test_a_common_factor_is_no_error(shape: tuple[int, int]) -> None:
    table = dependent(shape, 5)
    assert cramers_v_error(table, np.outer(table, table)) == pytest.approx(0.0, abs=1e-7)


def test_without_dependence_there_is_no_error_to_state() -> None:
    assert cramers_v_error(np.full((2, 2), 0.25), np.eye(4)) == inf


@pytest.mark.parametrize("shape", SHAPES)
def test_intervals_hold_the_true_strength(shape: tuple[int, int]) -> None:
    """Tables with known noise: 95 % intervals hold V in nearly so many of 1,000 draws."""
    table, random, draws = dependent(shape, 7), np.random.default_rng(20261123), 1000
    sigma = 0.02 / np.sqrt(table.size)
    covariance = sigma**2 * (np.eye(table.size) - 1.0 / table.size)
    variance = np.diag(covariance).reshape(shape)
    truth, inside, values, errors = cramers_v(table), 0, [], []
    for _ in range(draws):
        drawn = table + sigma * random.normal(size=shape)
        drawn -= (drawn.sum() - 1.0) / table.size
        values.append(cramers_v(drawn, variance))
        errors.append(cramers_v_error(drawn, covariance, variance))
        inside += abs(values[-1] - truth) < 1.96 * errors[-1]
    assert 0.92 < inside / draws < 0.98
    assert np.mean(errors) == pytest.approx(np.std(values), rel=0.1)
