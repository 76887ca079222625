from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import spearmanr

from calmstream.estimators.analysis.summaries import Distribution, levels
from calmstream.estimators.analysis.summary_rows import rank_correlation
from calmstream.estimators.domain import Attribute, Domain

BINS = {"name": "x", "kind": "number", "edges": [0, 10, 20, 40], "below": True, "above": True}
GRID = {"name": "x", "kind": "number", "edges": [0, 10, 40], "rounding": "grid", "other": "?"}
TABLE = np.array([[0.2, 0.1, 0.05], [0.05, 0.2, 0.05], [0.05, 0.05, 0.1], [0.0, 0.05, 0.1]])


def attribute(entry: dict[str, object]) -> Attribute:
    return Domain.from_dictionary([entry]).attributes[0]


def exact(entry: dict[str, object], shares: list[float]) -> Distribution:
    n = len(shares)
    return Distribution(levels(attribute(entry)), np.array(shares), np.zeros((n, n)))


def multinomial(entry: dict[str, object], shares: list[float], n: int) -> Distribution:
    p = np.array(shares)
    return Distribution(levels(attribute(entry)), p, (np.diag(p) - np.outer(p, p)) / n)


def test_means_of_bins_lie_between_their_bounds() -> None:
    found = exact(BINS, [0.1, 0.2, 0.3, 0.3, 0.1])
    assert found.mean().value == pytest.approx(0.1 * 0 + 0.2 * 5 + 0.3 * 15 + 0.3 * 30 + 0.1 * 40)
    low, high = found.mean_bounds()
    assert low.value == pytest.approx(0.1 * 0 + 0.2 * 0 + 0.3 * 10 + 0.3 * 20 + 0.1 * 40)
    assert high.value == pytest.approx(0.1 * 0 + 0.2 * 10 + 0.3 * 20 + 0.3 * 40 + 0.1 * 40)
    assert found.mean().stderr == 0.0


def test_a_mean_leaves_out_what_is_not_a_number() -> None:
    found = multinomial(GRID, [0.2, 0.3, 0.1, 0.4], 1000)
    assert found.mean().value == pytest.approx((0.3 * 10 + 0.1 * 40) / 0.6)
    # The mean of the multinomial given a known value, by the delta method of a ratio.
    p, x = np.array([0.2, 0.3, 0.1]) / 0.6, np.array([0.0, 10.0, 40.0])
    variance = float(p @ x**2 - (p @ x) ** 2) / (1000 * 0.6)
    assert found.mean().stderr == pytest.approx(math.sqrt(variance))


@pytest.mark.parametrize(
    ("share", "value"),
    [(0.05, 0.0), (0.1, 0.0), (0.2, 5.0), (0.45, 15.0), (0.6, 20.0), (0.95, 40.0)],
)
def test_quantiles_of_bins_are_interpolated(share: float, value: float) -> None:
    found = exact(BINS, [0.1, 0.2, 0.3, 0.3, 0.1]).quantile(share)
    assert found.value == pytest.approx(value)
    assert (found.low, found.high) == pytest.approx((value, value))


def test_quantiles_of_labels_and_grids_are_their_positions() -> None:
    assert exact(GRID, [0.2, 0.3, 0.1, 0.4]).quantile(0.5).value == 10.0
    colours = {"name": "c", "labels": ["a", "b", "c"]}
    assert exact(colours, [0.2, 0.2, 0.6]).quantile(0.5).value == 2.0


def test_shares_of_ranges_are_sums() -> None:
    found = multinomial(BINS, [0.1, 0.2, 0.3, 0.3, 0.1], 400)
    share = found.share_of(np.array([0, 1, 1, 0, 0]))
    assert share.value == pytest.approx(0.5)
    assert share.stderr == pytest.approx(math.sqrt(0.25 / 400))
    assert found.share_of(np.ones(5)).stderr == pytest.approx(0.0, abs=1e-12)


def test_intervals_cover_the_truth() -> None:
    """95 % intervals, 2,000 multinomial samples. At alpha 1e-6 fewer than 92.5 % are too few.

    Intervals of quantiles are a little wide inside bins, where errors are interpolated.
    """
    generator = np.random.default_rng(5)
    shares = [0.05, 0.3, 0.35, 0.2, 0.1]
    truth, low = exact(BINS, shares), np.array([1, 1, 0, 0, 0])
    hits = {"mean": 0, "median": 0, "third": 0, "share": 0}
    for row in generator.multinomial(2000, shares, size=2000) / 2000:
        found = multinomial(BINS, row.tolist(), 2000)
        pairs = {
            "mean": (found.mean(), truth.mean()),
            "median": (found.quantile(0.5), truth.quantile(0.5)),
            "third": (found.quantile(1 / 3), truth.quantile(1 / 3)),
            "share": (found.share_of(low), truth.share_of(low)),
        }
        for name, (one, true) in pairs.items():
            hits[name] += one.low <= true.value <= one.high
    assert all(0.925 * 2000 <= number <= 0.985 * 2000 for number in hits.values()), hits


def test_the_value_is_that_of_the_records() -> None:
    counts = np.round(TABLE * 200).astype(int)
    first, second = (axis.ravel() for axis in np.indices(TABLE.shape))
    records = [np.repeat(codes, counts.ravel()) for codes in (first, second)]
    found = rank_correlation(TABLE, np.zeros((12, 12)))
    assert found.value == pytest.approx(spearmanr(*records).statistic)
    assert found.stderr == 0.0


def test_the_error_is_that_of_finite_differences() -> None:
    p = TABLE.ravel()
    covariance = (np.diag(p) - np.outer(p, p)) / 1000
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
