"""Check the output of `calmstream analyse`: it leaves out columns that have no information."""

from __future__ import annotations

import re
from dataclasses import replace

from calmstream.consumer.publish.build import build_set
from calmstream.consumer.publish.merge import MergedWindow
from calmstream.consumer.subscribe.assembler import Snapshot
from calmstream.estimators.wire.snapshot import Kind
from calmstream.pages import analyse
from calmstream.terminal import Console
from tests.support.publisher import count_of, published_plan

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
