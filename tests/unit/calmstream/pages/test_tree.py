"""``analyse``: the tree's conditional tables, and which columns pairs have."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from calmstream.consumer.publish.build import build_set
from calmstream.consumer.publish.merge import MergedWindow
from calmstream.consumer.subscribe.assembler import Snapshot
from calmstream.estimators.wire.snapshot import Kind
from calmstream.pages import analyse
from calmstream.pages.analyse import joint, render_tree
from calmstream.terminal import Console
from tests.support.publisher import count_of, published_plan

BUILT = build_set(published_plan(groups=1), MergedWindow(0, Kind.FINAL, (1, 1), (count_of([0]),)))
RECORD = BUILT.marginals[0]
TABLES = {
    ("a", "b"): (("x", "y"), ("l", "m", "n"), (0.4, 0.1, 0.0, 0.1, 0.1, 0.3)),
    ("b", "c"): (("l", "m", "n"), ("o", "p"), (0.25, 0.25, 0.1, 0.1, 0.15, 0.15)),
    # In another order than that in which the attributes were first named.
    ("c", "a"): (("o", "p"), ("x", "y"), (0.3, 0.2, 0.2, 0.3)),
}


def snapshot(*pairs: tuple[str, str]) -> Snapshot:
    records = {}
    for pair in pairs:
        *labels, table = TABLES[pair]
        records[pair] = replace(
            RECORD,
            attributes=pair,
            labels=tuple(labels),
            table=table,
            stderr=(0.1,) * len(table),
        )
    return Snapshot(BUILT.manifest, records)


def test_the_product_of_the_shares_has_the_tables_of_the_edges() -> None:
    by_name = {one["attribute"]: one for one in joint(snapshot(*TABLES))}
    assert {name: one["given"] for name, one in by_name.items()} == {"a": None, "b": "a", "c": "a"}
    first = np.array(by_name["a"]["table"][0])
    np.testing.assert_allclose(first, [0.5, 0.5])
    for child, axes in (("b", ("a", "b")), ("c", ("c", "a"))):
        *labels, cells = TABLES[axes]
        table = np.reshape(cells, [len(own) for own in labels])
        expected = table if child == "b" else table.T
        np.testing.assert_allclose(first[:, None] * by_name[child]["table"], expected)


def test_errors_of_shares_are_those_of_many_draws() -> None:
    """Check the errors of b given a, whose cells have independent errors of 0.01 and 0.02."""
    *_, cells = TABLES["a", "b"]
    deviation = np.array([0.01, 0.02, 0.01, 0.02, 0.01, 0.02])
    drawn = snapshot(("a", "b"))
    record = replace(drawn.marginals["a", "b"], stderr=tuple(deviation))
    first, second = joint(Snapshot(BUILT.manifest, {("a", "b"): record}))
    random = np.random.default_rng(1)
    tables = (np.array(cells) + deviation * random.normal(size=(40_000, 6))).reshape(-1, 2, 3)
    shares = tables / tables.sum(axis=2, keepdims=True)
    np.testing.assert_allclose(second["stderr"], shares.std(axis=0), rtol=0.05)
    np.testing.assert_allclose(first["stderr"], [tables.sum(axis=2).std(axis=0)], rtol=0.05)


def test_people_see_percent() -> None:
    console = Console(width=120, no_color=True)
    with console.capture() as capture:
        console.print(render_tree(snapshot(*TABLES)))
    lines = [" ".join(line.split()) for line in capture.get().splitlines()]
    assert "b (%, ± 95 %), given a l m n" in lines
    assert "x 80.0 ± 45.0 20.0 ± 33.3 0.0 ± 39.2" in lines


PLAN = published_plan(groups=1)
TEST = {"statistic": 12.3, "critical": 45.6, "p_value": 0.7, "dependent": False}


def shown(test: dict[str, object] | None) -> str:
    """Return a snapshot with one pair, tested or not, as people see it."""
    cells = [0, 1, 1, 2, 3]
    built = build_set(PLAN, MergedWindow(0, Kind.TOTAL, (1, 1), (count_of(cells),)))
    pair = {"attributes": ["a0", "a1"], "mutual_information": 0.1, "cramers_v": 0.2}
    association = {"pairs": [pair | ({"chi_square": test} if test else {})], "tree": []}
    manifest = replace(built.manifest, analysis=association)
    console = Console(width=200, no_color=True)
    with console.capture() as capture:
        console.print(analyse.render(Snapshot(manifest, {})))
    return capture.get()


def header(text: str) -> list[str]:
    (line,) = (line for line in text.splitlines() if "pair" in line and "information" in line)
    return re.split(r"  +", line.strip())


def test_columns_of_the_test_are_left_out_where_no_pair_was_tested() -> None:
    assert header(shown(None)) == ["pair", "information", "Cramér's V"]


def test_the_verdict_has_a_column_only_if_some_pair_is_dependent() -> None:
    columns = ["pair", "information", "Cramér's V", "chi-square", "critical", "p"]
    assert header(shown(TEST)) == columns
    text = shown(TEST | {"dependent": True})
    assert header(text) == columns
    assert "dependent" in text
