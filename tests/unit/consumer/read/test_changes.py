"""Tests of change between windows that a publisher kept, in process."""

from __future__ import annotations

from dataclasses import replace

import orjson
import pytest

from calmstream.common.errors import InvalidInput
from calmstream.consumer.read.changes import changes, changes_of_plans, require_same_domain
from calmstream.consumer.read.ranges import NoAnswer
from calmstream.estimators.domain import Attribute, Domain
from calmstream.estimators.kinds import CHOSEN, Choice, Number, Ordered
from calmstream.estimators.plan import Guarantee, Plan
from tests.support.publisher import Bench, published_plan, work
from tests.support.serving import asking


def filled(plan: Plan | None = None, windows: int = 4) -> Bench:
    bench = Bench(plan or published_plan(windows=windows, groups=1))
    bench.close_all(windows)
    bench.put_all()
    work(bench.publication())
    return bench


def test_the_object_has_all_that_a_reader_needs() -> None:
    bench = filled()
    with asking(bench) as history:
        found = orjson.loads(orjson.dumps(changes(history).to_json()))
    assert found["window"]["first"] == found["window"]["last"] == 3
    assert found["against"] == {
        "first": 2,
        "last": 2,
        "start": bench.plan.window_start(2) // 1000,
        "end": bench.plan.window_end(2) // 1000,
    }
    assert found["reports"][0] == found["reports"][1] > 0
    assert found["other_plan"] is None
    assert len(found["tables"]) == len(bench.plan.marginals)
    for table in found["tables"]:
        assert set(table) == {
            "attributes", "covered", "statistic", "df", "p", "p_adjusted", "dependence_p",
            "flags", "reason", "uncovered", "left_out", "differences",
        }  # fmt: skip
        cells = 1
        for name in table["attributes"]:
            cells *= len(bench.plan.domain.attributes[bench.plan.domain.index([name])[0]].labels)
        assert len(table["differences"]) == (cells if table["p"] is not None else 0)


@pytest.mark.parametrize(
    ("window", "against", "first", "last"),
    [("3", "before", 0, 2), ("2..3", "previous", 0, 1), ("3", "0..1", 0, 1), ("1", "2", 2, 2)],
)
def test_windows_are_named_as_in_questions(
    window: str, against: str, first: int, last: int
) -> None:
    with asking(filled()) as history:
        found = changes(history, window, against).to_json()
    assert (found["against"]["first"], found["against"]["last"]) == (first, last)


@pytest.mark.parametrize(
    ("window", "against", "message"),
    [
        ("0", "previous", "no window is before window 0"),
        ("1", "0..2", "share devices"),
        ("2", "total", "share devices"),
        ("9", "previous", "newest final window"),
        ("x", "previous", "expected"),
    ],
)
def test_windows_that_cannot_be_compared_are_refused(
    window: str, against: str, message: str
) -> None:
    with asking(filled()) as history, pytest.raises(InvalidInput, match=message):
        changes(history, window, against)


def test_a_side_without_reports_is_refused_with_what_to_choose() -> None:
    bench = Bench(published_plan(windows=3, groups=1))
    for log in bench.logs:
        for window in range(3):
            log.report(window, *([0, 1, 2] * 20 if window == 1 else [])).close(window)
    bench.put_all()
    work(bench.publication())
    with asking(bench) as history:
        with pytest.raises(NoAnswer, match=r"window 0 received no reports: .* to test against"):
            changes(history, "1", "previous")
        with pytest.raises(NoAnswer, match=r"window 2 received no reports: .* windows to test$"):
            changes(history, "2", "1")


def test_windows_of_the_same_devices_are_flagged() -> None:
    plan = published_plan(windows=4, groups=1, guarantee=Guarantee("w-event", 2))
    with asking(filled(plan)) as history:
        assert "paired" not in changes(history, "3", "2").flags
        assert "paired" in changes(history, "3", "1").flags
        assert (
            "repeated" in changes(history, "3", "0..2").flags
            or "paired" in changes(history, "3", "0..2").flags
        )


def test_two_plans_compare_over_the_tables_that_both_publish() -> None:
    one = filled()
    other = filled(replace(one.plan, name="other", lineage="f" * 32))
    with asking(one) as history, asking(other) as second:
        found = changes_of_plans(history, second)
        assert found.to_json()["other_plan"] == other.plan.digest
        assert found.flags[0] == "paired"
        assert len(found.comparison.tables) == len(one.plan.marginals)
        with pytest.raises(InvalidInput, match="the same plan"):
            changes_of_plans(history, history)


def test_plans_over_other_attributes_are_refused() -> None:
    plan = published_plan()
    first = plan.domain.attributes[0]
    odd = Domain((Attribute("other", first.labels), *plan.domain.attributes[1:]))
    relabelled = Domain(
        (Attribute(first.name, (*first.labels[:-1], "new")), *plan.domain.attributes[1:])
    )
    with pytest.raises(InvalidInput, match="in one of them only"):
        require_same_domain(plan, replace(plan, domain=odd))
    with pytest.raises(InvalidInput, match="other labels"):
        require_same_domain(plan, replace(plan, domain=relabelled))
    require_same_domain(plan, plan)


def test_plans_that_read_values_in_other_ways_are_refused() -> None:
    plan = published_plan()

    def having(attribute: Attribute) -> Plan:
        return replace(plan, domain=Domain((attribute, *plan.domain.attributes[1:])))

    ends = ("0", "10")
    grid, seconds = Number(ends, "ms", rounding="grid"), Number(ends, "s", rounding="grid")
    numbers = [having(Attribute("n", ends, kind=kind)) for kind in (grid, seconds, None, Ordered())]
    for other in numbers[1:]:
        with pytest.raises(InvalidInput, match="the plans read values of 'n' in other ways"):
            require_same_domain(numbers[0], other)
        with pytest.raises(InvalidInput, match="in other ways"):
            require_same_domain(other, numbers[0])
    require_same_domain(numbers[2], numbers[3])
    require_same_domain(numbers[0], numbers[0])


def test_tables_of_numbers_orders_and_options_have_tests_with_their_labels() -> None:
    options = ("mail",)
    domain = Domain(
        (
            Attribute("load", ("0..10", "10..20"), kind=Number(("0", "10", "20"), "%")),
            Attribute("size", ("small", "large"), kind=Ordered()),
            Attribute("uses=mail", CHOSEN, kind=Choice("uses", "mail", options)),
        )
    )
    plan = replace(published_plan(windows=2, groups=2), domain=domain, marginals=((0, 1), (1, 2)))
    bench = Bench(plan)
    for log in bench.logs:
        log.report(0, *[0, 1, 2, 3] * 100).report(1, *[0, 1, 2] * 133, 3).close(0).close(1)
    bench.put_all()
    work(bench.publication())
    with asking(bench) as history:
        found = changes(history).to_json()
    assert found["tested"] == found["changed"] == 2
    labels = [[cell["labels"] for cell in table["differences"]] for table in found["tables"]]
    assert labels[0][0] == ["0..10", "small"]
    assert labels[1][3] == ["large", "yes"]
    lost = [table["differences"][3]["value"] for table in found["tables"]]
    assert max(lost) < 0.0
