"""Check the parts of the strangers' data sets, and what is printed about their cells."""

from __future__ import annotations

import hashlib
from argparse import Namespace
from typing import Any

import numpy as np
import pytest

from benchmarks.strangers import __main__ as command
from benchmarks.strangers.sets import (
    DEVELOPMENT,
    FRESH,
    LATEST,
    LOCKED,
    PACKAGES,
    SETS,
    _groups,
    _halved,
)
from benchmarks.strangers.table import ratio, show
from benchmarks.study import Study


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


@pytest.mark.parametrize(
    ("options", "file", "sets"),
    [
        ([], "strangers-development.jsonl", DEVELOPMENT),
        (["--locked"], "strangers-locked.jsonl", LOCKED),
        (["--fresh"], "strangers-fresh.jsonl", FRESH),
        (["--latest"], "strangers-latest.jsonl", LATEST),
    ],
)
def test_each_part_has_its_own_results(
    options: list[str], file: str, sets: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = []

    def run(study: Study, names: list[str], args: Namespace) -> None:
        runs.append((study.path.name, tuple(names), args.methods))

    monkeypatch.setattr(command, "cells", lambda names: names)  # the sets need not be there
    monkeypatch.setattr(command, "run", run)
    for more in ([], ["--methods", "all"]):
        monkeypatch.setattr("sys.argv", ["strangers", "run", *options, *more])
        command.main()
    assert runs == [(file, sets, ["noise-aware", "calm"]), (file, sets, None)]


def test_numbers_are_cut_into_groups_of_about_equal_size() -> None:
    values = np.arange(1000.0) / 10
    labels, codes = _groups(values)
    assert len(labels) == 8
    assert labels[0] == "0..12.4"
    assert np.bincount(codes).tolist() == [125] * 8


@pytest.mark.parametrize(
    ("values", "codes"),
    [
        ([1, 2, 3, 4, 5, 6], [0, 0, 0, 1, 1, 1]),
        ([1, 1, 1, 1, 2, 3], [0, 0, 0, 0, 1, 1]),
        ([1, 2, 3, 3, 3, 3], [0, 0, 1, 1, 1, 1]),
        (["yes", "no", "yes", "yes"], [1, 0, 1, 1]),
    ],
)
def test_a_bit_halves_the_records_as_well_as_its_values_allow(
    values: list[object], codes: list[int]
) -> None:
    attribute, found = _halved("item", np.array(values))
    assert attribute.labels == ("low", "high")
    assert found.tolist() == codes


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


@pytest.mark.parametrize(
    ("other", "listed"),
    [
        ([0.9, 0.91, 0.9], True),
        ([0.96, 0.97, 0.96], False),  # better by less than 5 %
        ([0.5, 0.9, 1.3], False),  # the repeats differ too much to say so
    ],
)
def test_better_methods_are_listed(
    other: list[float], listed: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    one = result([1.0, 1.0, 1.0], 0.95)
    show([one])
    assert "All methods" not in capsys.readouterr().out
    one["errors"]["olh"] = other
    one["skipped"] = {"am": "predicted 8, the best 1"}
    show([one])
    printed = capsys.readouterr().out
    assert "All methods were measured in 1 cells" in printed
    assert ("| made-up d=8 k=2 epsilon=1 n=2^16 | olh | 1.1" in printed) is listed
