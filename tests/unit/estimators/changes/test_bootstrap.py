"""Check how many draws a p-value takes, with draws whose distribution is known."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

from calmstream.estimators.changes import bootstrap
from calmstream.estimators.changes.homogeneity import Homogeneity

FREEDOM = 12


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Replace the simulated statistics by chi-square values; return the sizes of the steps."""
    made: list[int] = []

    def draw(*given: Any) -> Any:
        generator, draws = given[-2:]
        made.append(draws)
        return generator.chisquare(FREEDOM, draws)

    monkeypatch.setattr(bootstrap, "_draw", draw)
    return made


def p_of(statistic: float, seed: int = 3) -> float:
    test = Homogeneity(statistic, FREEDOM, 0.0, np.eye(FREEDOM))
    fits: Any = (SimpleNamespace(gains=()), SimpleNamespace(gains=()))
    return bootstrap.p_value(test, fits, ((), ()), np.zeros(FREEDOM), [seed])


@pytest.mark.parametrize(
    ("true", "most", "within"), [(0.5, 1, 0.1), (0.02, 4, 0.6), (0.001, 11, 0.7), (1e-5, 11, 2.0)]
)
def test_steps_end_when_enough_draws_exceed(
    true: float, most: int, within: float, steps: list[int]
) -> None:
    found = p_of(float(chi2.isf(true, FREEDOM)))
    assert abs(np.log(found / true)) < within
    assert len(steps) <= most
    assert set(steps) == {bootstrap.STEP}


def test_a_statistic_far_beyond_the_draws_takes_one_step(steps: list[int]) -> None:
    assert 0.0 < p_of(400.0) < bootstrap.FAR
    assert len(steps) == 1


def test_p_values_are_at_most_uniform(steps: list[int]) -> None:
    """Stopping early must not make small p-values more frequent; 20,000 null statistics."""
    generator = np.random.default_rng(8)
    statistics = generator.chisquare(FREEDOM, 20_000)
    # A true p-value above 0.1 gives one below 0.03 in less than one of 1e6 cases.
    small = statistics[chi2.sf(statistics, FREEDOM) < 0.1]
    found = np.array([p_of(float(s), seed) for seed, s in enumerate(small)])
    for level, most in ((0.03, 718), (0.01, 270)):  # 1 - 1e-6 quantiles of the binomial numbers
        assert (found <= level).sum() <= most
    assert steps
