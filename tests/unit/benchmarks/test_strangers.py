"""Check the parts of the strangers' data sets, and what is printed about their cells."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from benchmarks.strangers.sets import (
    DEVELOPMENT,
    FRESH,
    LATEST,
    LOCKED,
    PACKAGES,
    SETS,
)
from benchmarks.strangers.table import ratio, show


def test_the_halves_are_those_that_were_drawn() -> None:
    drawn = sorted(
        set(SETS) - {*FRESH, *LATEST}, key=lambda name: hashlib.sha256(name.encode()).hexdigest()
    )
    assert set(DEVELOPMENT) == set(drawn[:10])
    assert set(LOCKED) == set(drawn[10:])
    assert {one.package for one in SETS.values()} == set(PACKAGES)


def test_every_set_is_in_one_part() -> None:
    assert sorted([*DEVELOPMENT, *LOCKED, *FRESH, *LATEST]) == sorted(SETS)
    assert len({(one.package, one.table) for one in SETS.values()}) == len(SETS)


def result(ours: list[float], coverage: float) -> dict[str, Any]:
    return {
        "cell": {"dataset": "made-up", "d": 8, "k": 2, "epsilon": "1", "log_users": 16},
        "errors": {"noise-aware": ours, "calm": [1.0, 1.0, 1.0]},
        "coverage": {"noise-aware": [coverage] * 3},
        "skipped": {"uniform": "not asked for"},
    }


@pytest.mark.parametrize(
    ("ours", "coverage", "listed"),
    [
        ([0.5, 0.5, 0.6], 0.95, False),
        ([1.2, 1.2, 1.21], 0.95, True),
        ([0.6, 1.2, 1.8], 0.95, False),  # the repeats differ too much to say so
        ([0.5, 0.5, 0.6], 0.85, True),
        ([0.5, 0.5, 0.6], 0.999, True),
    ],
)
def test_cells_out_of_bounds_are_listed(
    ours: list[float], coverage: float, listed: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    one = result(ours, coverage)
    assert ratio(one)[0] == pytest.approx(sum(ours) / 3)
    show([one])
    assert ("| made-up d=8 k=2 epsilon=1 n=2^16 |" in capsys.readouterr().out) is listed
