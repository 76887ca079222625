"""Check summaries of numbers from kept counts, against the same from tables."""

from __future__ import annotations

import io

import numpy as np
import pytest

from calmstream.common.errors import InvalidInput
from calmstream.consumer.read.summary import Summary, split, summary
from calmstream.estimators.domain import Domain
from calmstream.pages import answer as page
from calmstream.terminal import Console
from tests.support.publisher import Bench, published_plan, work
from tests.support.serving import asking

DOMAIN = Domain.from_dictionary(
    [
        {"name": "ms", "kind": "number", "unit": "ms", "edges": [0, 10, 30]},
        {"name": "age", "kind": "number", "edges": [20, 60], "rounding": "grid"},
        {"name": "region", "labels": ["EU", "US"]},
    ]
)


@pytest.fixture(scope="module")
def bench() -> Bench:
    bench = Bench(published_plan(groups=3, domain=DOMAIN))
    dice = np.random.default_rng(7)
    for log in bench.logs:
        for window in range(2):
            cells = dice.choice(4, size=2000, p=[0.295, 0.205, 0.235, 0.265])
            log.report(window, *cells.tolist()).close(window)
    bench.put_all()
    work(bench.publication())
    return bench


def summarised(bench: Bench, *attributes: str, **options: object) -> Summary:
    with asking(bench) as history:
        return summary(history, attributes, **options)  # type: ignore[arg-type]


def unclipped(bench: Bench, *attributes: str) -> np.ndarray:
    with asking(bench) as history:
        return history.counted().table(attributes).raw


def test_statistics_are_those_of_the_table(bench: Bench) -> None:
    statistics = ("mean", "median", "q0.25", "share:0..10")
    found = summarised(bench, "ms", statistics=statistics)
    low, high = unclipped(bench, "ms").tolist()
    (row,) = found.table.rows
    mean, median, quarter, share = row.statistics
    assert mean.value == pytest.approx(5 * low + 20 * high, rel=5e-6)
    assert share.value == pytest.approx(low, rel=5e-6)
    # The interval of a mean of bins holds the ends of the bins.
    assert mean.low < 10 * high < 10 * low + 30 * high < mean.high
    assert quarter.value == pytest.approx(10 * 0.25 / low, rel=5e-6)
    assert quarter.value < median.value
    assert found.table.unit == "ms"
    assert tuple(one.statistic for one in row.statistics) == statistics
    assert {"binned", "clamped"} <= set(found.table.flags)


def test_statistics_given_an_attribute_are_those_of_each_row(bench: Bench) -> None:
    found = summarised(bench, "age", "region", given=["region"], statistics=["mean"])
    table = unclipped(bench, "region", "age")
    assert [row.labels for row in found.table.rows] == [("EU",), ("US",)]
    for row, shares in zip(found.table.rows, table, strict=True):
        assert row.statistics[0].value == pytest.approx(shares @ [20, 60] / shares.sum(), rel=5e-6)
        assert row.statistics[0].stderr > 0


def test_the_rank_correlation_of_two_binary_numbers_is_phi(bench: Bench) -> None:
    (row,) = summarised(bench, "ms", "age", statistics=["rank"]).table.rows
    t = unclipped(bench, "ms", "age")
    t /= t.sum()
    margins = t.sum(axis=1)[0] * t.sum(axis=1)[1] * t.sum(axis=0)[0] * t.sum(axis=0)[1]
    phi = (t[0, 0] * t[1, 1] - t[0, 1] * t[1, 0]) / np.sqrt(margins)
    assert row.statistics[0].value == pytest.approx(phi, rel=5e-6)


def test_a_summary_is_shown_to_people_and_programs(bench: Bench) -> None:
    found = summarised(bench, "ms", "region", given=["region"], statistics=["mean", "share:10+"])
    console = Console(file=io.StringIO(), width=80)
    page.show_summary(console, found)
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    assert "ms (ms)" in shown
    assert "EU" in shown
    assert "%" in shown
    assert max(map(len, shown.splitlines())) <= 80
    shown_to_programs = found.to_json()
    assert shown_to_programs["given"] == ("region",)
    assert [row["labels"] for row in shown_to_programs["rows"]] == [("EU",), ("US",)]
    statistic = shown_to_programs["rows"][0]["statistics"][0]
    assert statistic["statistic"] == "mean"
    assert statistic["low"] < statistic["value"] < statistic["high"]
    assert shown_to_programs["reports"] > 0


@pytest.mark.parametrize(
    ("attributes", "given", "statistics", "message"),
    [
        (["ms", "age"], [], ["mean"], "expected one attribute that is not given, got ms, age"),
        (["ms"], ["ms"], ["mean"], "got none"),
        (["ms"], ["region"], ["mean"], "'region' is not among the attributes"),
        (["ms"], [], ["rank"], "rank is asked alone, of two"),
        (["ms", "age"], [], ["rank", "mean"], "rank is asked alone"),
        (["ms"], [], ["mode"], "'mode' is none of mean"),
        (["ms"], [], ["q1.5"], "'q1.5' is none of"),
        (["ms"], [], ["q0.0"], "none of"),
        (["ms"], [], ["share:5..10"], "only partly within 5..10"),
        (["ms"], [], ["share:7"], "no label '7'"),
        (["speed"], [], ["mean"], "no attribute 'speed'"),
    ],
)
def test_what_fits_no_attribute_is_refused_before_anything_is_read(
    attributes: list[str], given: list[str], statistics: list[str], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        split(DOMAIN, attributes, given, statistics)


def test_an_option_has_no_summary() -> None:
    domain = Domain.from_dictionary([{"name": "apps", "kind": "choices", "options": ["mail"]}])
    with pytest.raises(InvalidInput, match="is an option"):
        split(domain, ["apps=mail"], [], ["mean"])


def test_labels_of_the_attribute_itself_cannot_be_grouped(bench: Bench) -> None:
    with pytest.raises(InvalidInput, match="labels of 'ms' cannot be grouped"):
        summarised(bench, "ms", group="ms=0..30")
