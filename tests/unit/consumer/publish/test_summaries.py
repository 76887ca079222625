"""Check the statistics that published tables contain where a plan asks for them."""

from __future__ import annotations

from dataclasses import replace
from importlib.resources import files

import numpy as np
import orjson
import pytest
from jsonschema import Draft202012Validator

from calmstream.common.errors import PlanError
from calmstream.consumer.publish.build import SnapshotSet, build_set
from calmstream.consumer.publish.merge import MergedWindow
from calmstream.consumer.read.history import History
from calmstream.consumer.read.summary import summary
from calmstream.estimators.domain import Domain
from calmstream.estimators.plan import Plan
from calmstream.estimators.plan.document import read_plan
from calmstream.estimators.wire.snapshot import Kind, decode, encode
from calmstream.estimators.wire.table_summary import Statistic, TableSummary
from tests.support.publisher import Bench, count_of, published_plan, work

NUMBERS = Domain.from_dictionary(
    [
        {"name": "ms", "kind": "number", "unit": "ms", "edges": [0, 10, 30]},
        {"name": "region", "labels": ["EU", "US"]},
        {"name": "size", "kind": "ordered", "labels": ["s", "l"]},
    ]
)
OPTIONS = Domain.from_dictionary(
    [
        {"name": "apps", "kind": "choices", "options": ["mail", "maps"]},
        {"name": "region", "labels": ["EU", "US"]},
    ]
)
CELLS = [0] * 300 + [1] * 210 + [2] * 250 + [3] * 240


def asking(domain: Domain, *summaries: str) -> Plan:
    plan = published_plan(groups=3, domain=domain, summaries=summaries)
    return replace(plan, marginals=((0,), (1,), (2,), (0, 1), (0, 2), (1, 2)))


def built(plan: Plan, cells: list[int] = CELLS) -> SnapshotSet:
    return build_set(plan, MergedWindow(1, Kind.FINAL, (1,) * 6, (count_of(cells),) * 3))


def found(made: SnapshotSet) -> dict[tuple[str, ...], tuple[TableSummary, ...]]:
    return {record.attributes: record.summaries for record in made.marginals}


def test_each_table_has_the_statistics_that_fit_it() -> None:
    by_table = found(built(asking(NUMBERS, "mean", "q0.9", "rank")))
    (one,) = by_table["ms",]
    assert (one.attributes, one.unit, one.given) == (("ms",), "ms", ())
    assert [s.statistic for s in one.rows[0].statistics] == ["mean", "q0.9"]
    assert one.flags == ("binned", "clamped")
    (given,) = by_table["ms", "region"]
    assert (given.attributes, given.given) == (("ms",), ("region",))
    assert [row.labels for row in given.rows] == [("EU",), ("US",)]
    (reverse,) = by_table["region", "size"]
    assert (reverse.attributes, reverse.given, reverse.unit) == (("size",), ("region",), "")
    (rank,) = by_table["ms", "size"]
    assert [s.statistic for s in rank.rows[0].statistics] == ["rank"]
    assert by_table["region",] == ()


def test_options_have_their_share_overall_and_given_a_category() -> None:
    made = built(asking(OPTIONS, "mean"))
    by_table = found(made)
    (one,) = by_table["apps=mail",]
    (share,) = one.rows[0].statistics
    assert share.statistic == "share:yes"
    assert share.value == pytest.approx(made.marginals[0].table[1], rel=1e-5)
    assert share.stderr == pytest.approx(made.marginals[0].stderr[1], rel=1e-5)
    (given,) = by_table["apps=mail", "region"]
    table = np.array(made.marginals[4].table).reshape(2, 2)
    values = [row.statistics[0].value for row in given.rows]
    assert values == pytest.approx(table[1] / table.sum(axis=0), rel=1e-3)
    assert by_table["apps=mail", "apps=maps"] == ()


def test_they_are_those_that_a_question_about_the_same_counts_gets() -> None:
    bench = Bench(asking(NUMBERS, "mean", "median"))
    dice = np.random.default_rng(7)
    for log in bench.logs:
        log.report(0, *dice.choice(4, 2000, p=[0.3, 0.2, 0.24, 0.26]).tolist()).close(0)
    bench.put_all()
    work(bench.publication())
    final = next(s for s in bench.shown() if s.kind is Kind.FINAL)
    with History(bench.plan, bench.broker, namespace=bench.names.namespace) as history:
        answer = summary(history, ["ms", "region"], given=["region"])
    (published,) = final.record("ms", "region").summaries
    assert [row.labels for row in published.rows] == [row.labels for row in answer.table.rows]
    for mine, asked in zip(published.rows, answer.table.rows, strict=True):
        for statistic, value in zip(mine.statistics, asked.statistics, strict=True):
            numbers = (statistic.value, statistic.stderr, statistic.low, statistic.high)
            expected = (value.value, value.stderr, value.low, value.high)
            assert numbers == pytest.approx(expected, rel=1e-5)


def test_a_record_with_summaries_is_read_as_it_was_written_and_valid() -> None:
    schema = files("calmstream.estimators.schemas").joinpath("snapshot-1.schema.json").read_bytes()
    plan = asking(NUMBERS, "mean", "rank")
    assert read_plan(plan.to_bytes()) == plan
    for record in built(plan).marginals:
        Draft202012Validator(orjson.loads(schema)).validate(orjson.loads(encode(record)))
        assert decode(encode(record), plan) == record


def test_what_no_report_is_about_has_no_statistics() -> None:
    plan = replace(asking(NUMBERS, "mean"), groups=published_plan(groups=1).groups)
    made = build_set(plan, MergedWindow(1, Kind.FINAL, (1, 1), (count_of(CELLS),)))
    assert found(made)["size",] == ()
    assert found(made)["ms",] != ()


def test_a_label_without_mass_has_unknown_statistics() -> None:
    plan = replace(asking(NUMBERS, "mean"), groups=published_plan(groups=1).groups)
    made = build_set(plan, MergedWindow(1, Kind.FINAL, (1, 1), (count_of([0, 2] * 100),)))
    (given,) = found(made)["ms", "region"]
    values = [row.statistics[0] for row in given.rows]
    assert values[0].value == pytest.approx(12.5)
    assert values[1] == Statistic("mean", None, None, None, None)


@pytest.mark.parametrize(
    ("summaries", "message"),
    [
        (("mode",), "none of mean"),
        (("share:1+",), "none of mean"),
        (("q0.90",), "none of mean"),
        (("q0.0",), "none of mean"),
        (("mean", "mean"), "at most 8 different"),
        (tuple(f"q0.{i}" for i in range(11, 20)), "at most 8"),
    ],
)
def test_a_plan_with_unknown_statistics_is_refused(
    summaries: tuple[str, ...], message: str
) -> None:
    with pytest.raises(PlanError, match=message):
        asking(NUMBERS, *summaries)


@pytest.mark.parametrize("cells", [[0] * 30 + [2] * 1, [3] * 30 + [1] * 1])
def test_the_interval_of_a_mean_stays_within_the_edges(cells: list[int]) -> None:
    (one,) = found(built(asking(NUMBERS, "mean"), cells))["ms",]
    (mean,) = one.rows[0].statistics
    assert mean.low is not None
    assert mean.value is not None
    assert mean.high is not None
    assert min(0.0, mean.value) <= mean.low <= mean.value <= mean.high <= max(30.0, mean.value)
    assert mean.low == min(0.0, mean.value) or mean.high == max(30.0, mean.value)
