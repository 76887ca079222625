"""A record gives at most one report, within the guarantee, across restarts and crashes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from calmstream import MemoryStore, Status
from calmstream.estimators.domain import Domain
from calmstream.estimators.plan import Plan
from calmstream.estimators.randomness import SeededRandomness
from calmstream.producer.device.assignment import place
from calmstream.producer.device.ledger import DeviceState
from calmstream.producer.device.report import code_of
from tests.support.clock import ManualClock
from tests.support.producer import START, make_plan, unsigned_reporter

RECORD = {"colour": "red", "size": "xl", "flag": "1"}


def secret_in(plan: Plan, group: int, view: int = 0) -> bytes:
    candidates = (i.to_bytes(16, "big") for i in range(10_000))
    return next(
        s for s in candidates if (place(plan, s).group, place(plan, s).view) == (group, view)
    )


def store_in(plan: Plan, group: int, view: int = 0) -> MemoryStore:
    return MemoryStore(DeviceState(secret_in(plan, group, view)))


def test_status_gives_the_reason_and_report_obeys_it() -> None:
    plan = make_plan(windows=3)
    clock = ManualClock((START - 1) * 1000)
    reporter = unsigned_reporter(plan, store_in(plan, 0), clock=clock.now_ms)
    assert (reporter.status(), reporter.report(RECORD)) == (Status.NOT_STARTED, None)
    assert reporter.status(START * 1000) is Status.READY
    clock.wall_ms = (START + 5) * 1000
    assert reporter.report(RECORD) is not None
    assert (reporter.status(), reporter.report(RECORD)) == (Status.ALREADY_REPORTED, None)
    clock.wall_ms = plan.expires * 1000
    assert (reporter.status(), reporter.report(RECORD)) == (Status.OVER, None)


class Watched(dict[str, object]):
    def __init__(self) -> None:
        super().__init__(RECORD)
        self.asked: set[str] = set()

    def __getitem__(self, key: str) -> object:
        self.asked.add(key)
        return super().__getitem__(key)


@pytest.mark.parametrize(
    ("group", "view", "names"),
    [(0, 0, {"colour", "size"}), (1, 0, {"size", "flag"}), (2, 0, {"colour"})],
)
def test_only_the_views_attributes_are_read(group: int, view: int, names: set[str]) -> None:
    plan, record = make_plan(), Watched()
    reporter = unsigned_reporter(plan, store_in(plan, group, view), clock=lambda: START * 1000)
    reporter.report(record)
    assert record.asked == names == set(reporter.asked())


def codes(name: str, label: object, tries: int = 300) -> set[int]:
    plan = make_plan()
    randomness, j = SeededRandomness(1), plan.domain.names.index(name)
    return {code_of(plan, {name: label}, j, randomness) for _ in range(tries)}


def test_unknown_labels_become_other_or_anything_legal() -> None:
    for unknown in ("purple", None, 3.5, True, ["red"], {}, b"red", float("nan")):
        assert codes("colour", unknown) == {2}
        assert codes("size", unknown) == {0, 1, 2, 3}
    assert codes("colour", "red") == {0}
    assert codes("size", "xl") == {3}


def test_check_says_what_is_no_value_and_what_is_reported_instead() -> None:
    entries = [
        {"name": "n", "kind": "number", "edges": ["0", "1", "2"], "rounding": "grid", "other": "?"},
        {"name": "c", "kind": "choices", "options": ["x", "y"]},
    ]
    plan = make_plan()
    more = Domain.from_json(entries).attributes
    plan = replace(plan, domain=Domain((*plan.domain.attributes, *more)))
    reporter = unsigned_reporter(plan, MemoryStore(), clock=lambda: START * 1000)
    good: dict[str, object] = {"colour": "red", "size": "m", "flag": 1, "n": 0.5, "c": ["x"]}
    assert reporter.check(good) == []
    assert reporter.check({"color": "red", "colour": "Red", "flag": "0", "n": "1", "c": ["z"]}) == [
        "color: the plan has no such attribute",
        "colour: none of the labels; reported is blue",
        "size: no value; reported is a random label",
        "n: expected a finite number; reported is ?",
        "c: some options are unknown",
    ]
    assert reporter.check({**good, "c": "x"}) == [
        "c: expected a list of options; reported is a random label"
    ]
