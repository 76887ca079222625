"""Check the rank correlation of a table, and its standard error."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import spearmanr

from calmstream.estimators.analysis.summary_rows import rank_correlation

TABLE = np.array([[0.2, 0.1, 0.05], [0.05, 0.2, 0.05], [0.05, 0.05, 0.1], [0.0, 0.05, 0.1]])


def multinomial(table: np.ndarray, n: int) -> np.ndarray:
    p = table.ravel()
    covariance: np.ndarray = (np.diag(p) - np.outer(p, p)) / n
    return covariance


def test_the_value_is_that_of_the_records() -> None:
    counts = np.round(TABLE * 200).astype(int)
    first, second = (axis.ravel() for axis in np.indices(TABLE.shape))
    records = [np.repeat(codes, counts.ravel()) for codes in (first, second)]
    found = rank_correlation(TABLE, np.zeros((12, 12)))
    assert found.value == pytest.approx(spearmanr(*records).statistic)
    assert found.stderr == 0.0


def test_the_error_is_that_of_finite_differences() -> None:
    covariance = multinomial(TABLE, 1000)
    step, slope = 1e-6, []
    for cell in range(12):
        moved = [TABLE.copy().ravel() for _ in range(2)]
        moved[0][cell] += step
        moved[1][cell] -= step
        values = [rank_correlation(m.reshape(4, 3), covariance).value for m in moved]
        slope.append((values[0] - values[1]) / (2 * step))
    expected = math.sqrt(np.array(slope) @ covariance @ np.array(slope))
    assert rank_correlation(TABLE, covariance).stderr == pytest.approx(expected, rel=1e-4)


def test_one_value_only_has_no_correlation() -> None:
    table = np.array([[0.5, 0.5], [0.0, 0.0]])
    assert math.isnan(rank_correlation(table, np.zeros((4, 4))).value)
    assert math.isnan(rank_correlation(np.zeros((2, 2)), np.zeros((4, 4))).value)
