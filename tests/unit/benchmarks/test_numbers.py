"""Check the comparison of numbers: Square Wave against its definition, and the page of results."""

from __future__ import annotations

from math import exp

import numpy as np
import pytest

from benchmarks.accuracy import hdg, numbers, square_wave


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 2.0])
def test_square_wave_is_private_and_near_its_value(epsilon: float) -> None:
    channel = square_wave.channel(epsilon, 64)
    np.testing.assert_allclose(channel.sum(axis=0), 1.0)
    ratio = (channel.max(axis=1) / channel.min(axis=1)).max()
    assert ratio == pytest.approx(exp(epsilon))
    # Near and far densities have the ratio e, and the near part has the width 2 b.
    e = exp(epsilon)
    b = (epsilon * e - e + 1) / (2 * e * (e - 1 - epsilon))
    near = np.isclose(channel[:, 31] / channel[:, 31].min(), e).sum()
    assert near == pytest.approx(64 * 2 * b / (1 + 2 * b), abs=3)


def test_square_wave_recovers_a_smooth_distribution_from_many_reports() -> None:
    places = np.linspace(-2.0, 2.0, 32)
    shares = np.exp(-np.square(places))
    histogram = np.rint(shares / shares.sum() * 4_000_000).astype(np.int64)
    found = square_wave.estimate(2.0, histogram, np.random.default_rng(1))
    assert np.abs(found - histogram / histogram.sum()).sum() < 0.08


def test_grids_have_the_sizes_of_the_paper() -> None:
    # (10^5 (e - 1)^2 0.7^2 / 2 e)^(1/3) = 29.9 and (0.06 (e - 1) sqrt(10^5 / e))^(1/2) = 4.45.
    assert hdg.sizes(1.0, 100_000, 100_000) == (32, 4)


def test_grids_recover_margins_from_many_reports() -> None:
    random = np.random.default_rng(3)
    codes = np.clip(random.normal([32, 20], [9, 6], size=(400_000, 2)), 0, 63).astype(np.uint16)
    found = hdg.margins("4", codes, [64, 64], random)
    for j, table in enumerate(found):
        assert table.sum() == pytest.approx(1.0)
        truth = np.bincount(codes[:, j], minlength=64) / len(codes)
        assert np.abs(np.cumsum(table - truth)).max() < 0.02


def test_consistent_grids_agree_about_each_number() -> None:
    random = np.random.default_rng(4)
    found = {(0,): random.normal(size=8), (1,): random.normal(size=8)}
    found[0, 1] = random.normal(size=(4, 4))
    hdg.consistent(found, 1)
    np.testing.assert_allclose(found[1,].reshape(4, 2).sum(axis=1), found[0, 1].sum(axis=0))
    for table in (np.array([0.7, 0.6, -0.2, 0.05]), np.array([2.0, -1.0])):
        fixed = hdg.non_negative(table)
        assert (fixed >= 0).all()
        assert fixed.sum() == pytest.approx(1.0)


def test_the_page_has_a_row_for_every_measured_case(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {name for pair in (*numbers.RATIOS.values(), *numbers.SAME.values()) for name in pair}
    held = {f"{form} {name}" for form in ("smooth", "plain") for name in numbers.HELD.values()}
    result = dict.fromkeys(names | held, 1.0) | {"smooth range_mse": 0.25}

    class OneCase:
        def __init__(self, figure: str) -> None:
            assert figure == "numbers"

        def results(self, key: str) -> list[dict[str, float]]:
            return [result] if key == "adult, epsilon 1, n 65536" else []

    monkeypatch.setattr(numbers, "Ledger", OneCase)
    page = numbers.table()
    assert "| adult, epsilon 1, n 65536 | 1 | 0.25 | 0.25 | 0.25 | 1.00 |" in page
    assert "| epsilon 1 | 100 (100) |" in page
    assert "## Levels shuffled" not in page
    assert "nan" not in page
    assert "## Published code" not in page
    result |= {name: 1.0 for pair in numbers.PUBLISHED.values() for name in pair} | result
    part = numbers.table().split("## Published code")[1]
    assert "| adult, epsilon 1, n 65536 | 1 | 0.25 | 0.25 | 0.25 | 1.00 |" in part
