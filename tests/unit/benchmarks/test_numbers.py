"""The page of the comparison of numbers."""

from __future__ import annotations

import pytest

from benchmarks.accuracy import numbers


def test_the_page_has_a_row_for_every_measured_case(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {name for pair in numbers.RATIOS.values() for name in pair}
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
    assert "nan" not in page
    assert "## Published code" not in page
    result |= {name: 1.0 for pair in numbers.PUBLISHED.values() for name in pair} | result
    part = numbers.table().split("## Published code")[1]
    assert "| adult, epsilon 1, n 65536 | 1 | 0.25 | 0.25 | 0.25 | 1.00 |" in part
