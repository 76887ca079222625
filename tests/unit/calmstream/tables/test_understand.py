from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from calmstream.tables.files import text_of
from calmstream.tables.numbers import edges, parsed
from calmstream.tables.table import ColumnBuilder
from calmstream.tables.understand import Understood, understand
from tests.unit.calmstream.conftest import Command

Cells = Callable[[random.Random], object]


def learnt(cells: Cells, name: str = "x") -> Understood:
    dice, builder = random.Random(1), ColumnBuilder()
    builder.extend(text_of(cells(dice)) for _ in range(1000))
    return understand(builder.column(name), asked=False)


@pytest.mark.parametrize(
    ("name", "cells", "why"),
    [
        ("id", lambda d: d.randrange(10**9), "ids: "),
        ("user_id", lambda d: f"u{d.randrange(10**9)}", "ids: "),
        ("notes", lambda d: f"text {d.random()}", "ids or free text"),
        ("ip", lambda d: f"10.0.{d.randrange(256)}.{d.randrange(256)}", "ids or free text"),
        ("when", lambda d: f"2026-0{d.randrange(1, 9)}-1{d.randrange(9)}", "dates or times"),
        ("when", lambda d: f"{d.randrange(1, 28)}/11/2026 10:{d.randrange(10, 60)}", "dates or"),
        ("when", lambda d: f"{d.randrange(1, 28)} Nov 2026", "dates or times"),
        ("x", lambda _: "", "it is empty"),
        ("x", lambda _: "v1", "every record has 'v1'"),
    ],
)
def test_what_says_nothing_about_groups_is_left_out(name: str, cells: Cells, why: str) -> None:
    found = learnt(cells, name)
    assert found.entry is None
    assert why in found.why


@pytest.mark.parametrize(
    "labels",
    [
        list("12345"),
        ["Under 18", "18-24", "25-34", "65+"],
        ["1", "2", "3-4", "5 or more"],
        ["Disagree", "Agree", "Strongly agree"],
        ["1 - Not at all", "2", "3", "5 - Very much", "10: more"],
        ["Dissatisfied", "Neither", "Very satisfied"],
    ],
)
def test_labels_have_their_order(labels: list[str]) -> None:
    entry = {"name": "x", "kind": "ordered", "labels": labels}
    assert learnt(lambda dice: dice.choice(labels)).entry == entry


@pytest.mark.parametrize("labels", [["no", "yes"], ["Route 66", "Route 9"], [*"123", "NA"]])
def test_other_labels_are_sorted(labels: list[str]) -> None:
    found = [label.replace("NA", "missing") for label in labels]
    assert learnt(lambda dice: dice.choice(labels)).entry == {"name": "x", "labels": found}


def test_options_that_are_not_frequent_join_other_as_the_table_writes_it() -> None:
    entry = learnt(lambda dice: ("Other", str(dice.randrange(2000)))).entry or {}
    assert [entry["other"], *entry["options"]] == ["Other", "Other"]


@pytest.mark.parametrize(
    ("cells", "warning"),
    [
        (lambda d: d.choice("12345") if d.random() < 0.9 else "99", "'x' has '99': --missing"),
        (lambda d: d.randrange(18, 90) if d.random() < 0.9 else 999, "--missing 'label:999'"),
        (lambda d: d.choice(["0", "1", "2", "-9"]), "--missing 'label:-9'"),
        (lambda d: d.choice(["a", "b", "-", "."]), "'x' has "),
        (lambda d: d.choice(["1", "1.0", "2"]), "look alike: '1', '1.0'"),
        (lambda d: d.choice(["A", "A + B", "B + A", "B"]), "--choices 'x= + ' if they are several"),
        (lambda d: d.choice(["A, B", "A, B, C", "A, B, D", "C"]), "--choices 'x=, '"),
        (lambda d: d.choice(["1.0", "2.5", "3.0", "99.0"]), "--missing 'label:99.0'"),
        (lambda d: d.choice(["1.0", "2.5", "3.0", "98.7"]), None),
        (lambda d: d.choice(["-0.6", "0.2", "1.5"]), None),
        (lambda d: d.randrange(18, 100), None),
        (lambda d: d.choice("3456789"), None),
        (lambda d: d.choice(["-1", "0", "1"]), "'x' has '-1'"),
        (lambda d: d.choice(["-2", "-1", "0", "1", "2"]), None),
        (lambda d: d.choice(["yes", "no"]), None),
    ],
)
def test_what_may_mean_something_else_is_pointed_out(cells: Cells, warning: str | None) -> None:
    found = learnt(cells).warnings
    assert [warning in line for line in found] == [True] if warning else found == ()


@pytest.mark.parametrize(
    ("texts", "values", "style"),
    [
        (["1", "-2.5", "1e3"], [1, -2.5, 1000], ""),
        (["1,234.5", "7"], [1234.5, 7], "written as 1,234.5"),
        (["1.234,5", "7,5"], [1234.5, 7.5], "written as 1.234,5"),
        (["$5", "$ 1,000"], [5, 1000], "written as 1,234.5 $"),
        (["5 %", "7%"], [5, 7], "%"),
        (["9" * 400], [1e308], ""),
        (["1", "two"], None, ""),
        (["$5", "5"], None, ""),
        (["nan", "1"], None, ""),
    ],
)
def test_numbers_of_texts(texts: list[str], values: list[float] | None, style: str) -> None:
    found = parsed(texts)
    assert (found and found[0].tolist()) == values
    assert found is None or found[1] == style


@pytest.mark.parametrize(
    "draw",
    [
        lambda g: g.normal(50, 10, 5000),
        lambda g: g.lognormal(3, 2, 5000),
        lambda g: np.where(g.random(5000) < 0.9, 0, g.integers(100, 99_999, 5000)),
        lambda g: g.integers(0, 40, 5000).astype(float),
        lambda g: g.normal(0, 1e-9, 5000),
        lambda g: g.normal(0, 1e15, 5000),
        lambda g: g.choice([1.0, 1.0000001, 2.0, *range(20)], 5000),
    ],
)
def test_learnt_bins_are_short_and_about_equally_full(
    draw: Callable[[np.random.Generator], np.ndarray],
) -> None:
    values, counts = np.unique(draw(np.random.default_rng(1)), return_counts=True)
    found = list(map(float, edges(values, counts)))
    assert found == sorted(set(found))
    assert found[0] <= max(values[0], -1e17)
    assert found[-1] >= min(values[-1], 1e17)
    clipped = np.clip(values, found[0], found[-1])
    bins = np.minimum(np.searchsorted(found, clipped, side="right") - 1, len(found) - 2)
    full = np.bincount(bins, counts, len(found) - 1) / counts.sum()
    alone = np.bincount(bins, minlength=len(found) - 1) == 1
    assert (full[~alone] < 0.3).all()


def test_the_page_fits_eighty_columns(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    path, out = tmp_path / "people.csv", tmp_path / "people.json"
    name = "How often, if ever, do you use the thing that we asked about before?"
    rows = [
        f"{i},{i % 7},{['yes', 'Yes', 'no'][i % 3]},{['a;b', 'a', 'b'][i % 3]}" for i in range(60)
    ]
    path.write_text("\n".join([f'id,"{name}",ok,uses', *rows]))
    shown = command("look", path, "--out", out).out
    assert max(map(len, shown.splitlines()[1:-1])) <= 80
    for text in ("60 records; 3 of 4 columns are used", "left out", "ids: 60 values", "look alike"):
        assert text in shown
    assert command("plan", out, "--epsilon", "1", "--users", "9000", "--k", "2").code == 0
