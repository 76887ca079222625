from __future__ import annotations

import numpy as np
import pytest

from calmstream.estimators.numerics.block_inverse import AxisChannel, mix
from calmstream.estimators.numerics.likelihood import barrier, discrepancy, expectation_maximisation


def channels(gap: float, *cells: int) -> list[AxisChannel]:
    return [AxisChannel((i,), r, gap, (1 - gap) / r) for i, r in enumerate(cells)]


def likelihood(
    table: np.ndarray, observed: np.ndarray, factors: list[AxisChannel], n: int
) -> float:
    return n * float((observed * np.log(mix(table, factors))).sum())


@pytest.mark.parametrize("shape", [(2, 2), (3, 4), (2, 2, 2)])
@pytest.mark.parametrize("gap", [0.02, 0.2, 0.7])
def test_no_other_table_is_more_likely(shape: tuple[int, ...], gap: float) -> None:
    generator = np.random.default_rng(3)
    n = 5000
    factors = channels(gap, *shape)
    truth = generator.dirichlet(np.full(np.prod(shape), 0.3)).reshape(shape)
    observed = generator.multinomial(n, mix(truth, factors).ravel()).reshape(shape) / n
    estimate = barrier(observed, factors, n)
    assert estimate.min() >= 0.0
    assert estimate.sum() == pytest.approx(1.0)
    best = likelihood(estimate, observed, factors, n)
    rivals = [generator.dirichlet(np.ones(estimate.size)).reshape(shape) for _ in range(200)]
    rivals += [0.99 * estimate + 0.01 * rival for rival in rivals]
    rivals += [truth, expectation_maximisation(observed, factors)]
    assert max(likelihood(r, observed, factors, n) for r in rivals) <= best + 0.0101


def test_the_paper_s_rule_stops_at_the_uniform_table_where_epsilon_is_small() -> None:
    """The first step of EM is smaller than its threshold; the other rule is not fooled."""
    factors = channels(0.003, 2, 2)
    truth = np.array([[0.9, 0.04], [0.03, 0.03]])
    observed = mix(truth, factors)
    fooled = expectation_maximisation(observed, factors)
    assert 0 < np.abs(fooled - 0.25).max() < 1e-5
    assert np.abs(barrier(observed, factors, 10**6) - 0.25).max() > 0.1


@pytest.mark.parametrize("gap", [0.05, 0.3])
def test_the_discrepancy_rule_stops_where_the_truth_would_be_believed(gap: float) -> None:
    """Deviance just below the median of chi-square, and less total variation than the maximum."""
    generator = np.random.default_rng(4)
    factors = channels(gap, 2, 2)
    truth = np.array([[0.5, 0.2], [0.2, 0.1]])
    n = 20_000
    smooth, likely = [], []
    for _ in range(60):
        observed = generator.multinomial(n, mix(truth, factors).ravel()).reshape(2, 2) / n
        estimate = discrepancy(observed, factors, n)
        deviance = 2 * n * float((observed * np.log(observed)).sum())
        deviance -= 2 * likelihood(estimate, observed, factors, n)
        uniform = 2 * n * float((observed * np.log(observed / 0.25)).sum())
        # 2.366 is the median with 3 degrees of freedom; a maximum that misses more stays.
        most = barrier(observed, factors, n)
        reachable = 2 * likelihood(most, observed, factors, n)
        if 2 * n * float((observed * np.log(observed)).sum()) - reachable < 2.3:
            assert min(0.4, uniform) < deviance <= 2.367
        smooth.append(np.abs(estimate - truth).sum())
        likely.append(np.abs(most - truth).sum())
    assert np.mean(smooth) < np.mean(likely)
