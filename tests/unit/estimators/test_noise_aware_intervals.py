"""Standard errors of nearly empty cells: how far up they reach."""

from __future__ import annotations

import numpy as np
import pytest

from estimators.noise_aware.model import MAX_LOG_ERROR, upper_error, upper_of_draws


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
def test_no_interval_gets_shorter_nor_anything_but_a_number(rule: object) -> None:
    assert callable(rule)
    table = np.array([0.0, 0.0, 1e-300, 1e-12, 0.3, 1.0])
    stderr = np.array([0.0, 0.01, 1e-3, 1e-3, 1e-9, 0.5])
    found = rule(table, stderr)
    assert np.isfinite(found).all()
    assert (found >= stderr).all()
