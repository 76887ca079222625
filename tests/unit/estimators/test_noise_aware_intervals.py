"""Standard errors of nearly empty cells: how far up they reach."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from estimators.methods.noise_aware import NoiseAware
from estimators.noise_aware.model import MAX_LOG_ERROR, upper_error, upper_of_draws
from tests.noise_aware_support import domain_of, plan_for, tallies_of

Floats = NDArray[np.float64]


@pytest.mark.parametrize("deviation", [0.05, 0.5, 1.0, 1.4])
def test_draws_of_a_log_normal_law_are_held_up_to_their_own_upper_end(deviation: float) -> None:
    mean = 0.01
    sd = mean * np.sqrt(np.expm1(deviation**2))
    found = upper_of_draws(np.array([mean]), np.array([sd]))[0]
    reach = mean * np.exp(1.96 * deviation - deviation**2 / 2)
    assert found == pytest.approx(max(sd, (reach - mean) / 1.96))
    draws = mean * np.exp(
        deviation * np.random.default_rng(1).normal(size=200_000) - deviation**2 / 2
    )
    assert np.mean(draws > mean + 1.96 * found) <= 0.026


def test_to_first_order_the_upper_end_is_that_of_the_logarithm() -> None:
    table, stderr = np.array([0.2, 0.01, 1e-6]), np.array([0.002, 0.005, 1e-3])
    found = upper_error(table, stderr)
    wanted = table * np.expm1(1.96 * np.array([0.01, 0.5, MAX_LOG_ERROR])) / 1.96
    np.testing.assert_allclose(found, np.maximum(stderr, wanted))


@pytest.mark.parametrize("rule", [upper_error, upper_of_draws])
def test_no_interval_gets_shorter_nor_anything_but_a_number(
    rule: Callable[[Floats, Floats], Floats],
) -> None:
    table = np.array([0.0, 0.0, 1e-300, 1e-12, 0.3, 1.0])
    stderr = np.array([0.0, 0.01, 1e-3, 1e-3, 1e-9, 0.5])
    found = rule(table, stderr)
    assert np.isfinite(found).all()
    assert (found >= stderr).all()


@pytest.mark.parametrize("cards", [(2, 2, 2, 2), (3, 4, 2)])
def test_where_hardly_anything_is_known_intervals_hold_all_that_is_possible_and_no_more(
    cards: tuple[int, ...],
) -> None:
    domain = domain_of(*cards)
    plan = plan_for(domain, "0.01", 200, 3)
    codes = np.zeros((200, len(cards)), np.uint16)
    model = NoiseAware().fit(plan, tallies_of(plan, codes, 1))
    for attributes in ((0,), (0, 1), (0, 1, 2)):
        found = model.marginal(attributes)
        farthest = np.maximum(found.table, 1.0 - found.table)
        assert "noise" in found.flags
        assert (1.96 * found.stderr <= farthest + 1e-12).all()
        assert (1.96 * found.stderr > 0.1 * farthest).all()
