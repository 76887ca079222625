"""The test of independence with evenly weighted cells, against exact cases."""

from __future__ import annotations

import math

import numpy as np
import pytest

from calmstream.estimators.analysis.chi_square import even_independence


def test_two_binary_attributes_give_the_normal_test() -> None:
    margins = np.array([0.3, 0.7]), np.array([0.6, 0.4])
    gap = 0.05
    table = np.outer(*margins) + gap * np.array([[1.0, -1.0], [-1.0, 1.0]])
    spread = np.diag([4e-4, 3e-4, 2e-4, 1e-4])
    # The interaction has one degree of freedom. Its derivative by the cell (i, j) is the product
    # of (1 - p) or -p, and (1 - q) or -q.
    slope = np.outer([1 - margins[0][0], -margins[0][0]], [1 - margins[1][0], -margins[1][0]])
    z = gap / math.sqrt(slope.ravel() @ spread @ slope.ravel())
    test = even_independence(table, spread, margins)
    assert test.statistic == pytest.approx(z**2)
    assert test.critical == pytest.approx(1.959963984540054**2)
    assert test.p_value == pytest.approx(math.erfc(z / math.sqrt(2)), rel=1e-9)


def test_independent_attributes_are_rejected_as_often_as_stated() -> None:
    dice = np.random.default_rng(5)
    margins = np.full(3, 1 / 3), np.array([0.5, 0.3, 0.1, 0.1])
    noise = dice.normal(scale=0.01, size=(12, 12)) / 3
    spread = noise @ noise.T + np.diag(np.full(12, 1e-4))
    errors = dice.multivariate_normal(np.zeros(12), spread, size=4000).reshape(-1, 3, 4)
    p = [even_independence(np.outer(*margins) + e, spread, margins) for e in errors]
    # Satterthwaite's approximation; 4 standard deviations of the count are about 55.
    assert 4000 * 0.05 - 80 < sum(one.dependent for one in p) < 4000 * 0.05 + 80


def test_exact_tables_and_tables_of_one_row_never_reject() -> None:
    margins = np.array([1.0, 0.0]), np.array([0.5, 0.5])
    test = even_independence(np.outer(*margins), np.zeros((4, 4)), margins)
    assert (test.statistic, test.p_value, test.dependent) == (0.0, 1.0, False)
