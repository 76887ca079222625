"""Check what a recorder counts, that it counts no day twice, and that it never changes a report."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from calmstream import FileStore, MemoryStore, Recorder, Status, rejoin, withdraw
from calmstream.common.errors import FatalError, RecoverableError
from calmstream.estimators.domain import Domain
from calmstream.estimators.plan import Plan
from calmstream.producer.device import store as store_module
from calmstream.producer.device.events import MAX_BYTES, counts_on, new_book
from calmstream.producer.device.store import Document
from tests.support.producer import LARGE, START, make_plan
from tests.support.typescript.lives import moments, twice
from tests.support.typescript.recorded import DAY, Device, Life, life, spelled

LIVES = 150
FIRST = -(-START // DAY) * DAY  # the first midnight after the start of the plans


def recorded_plan(*entries: dict[str, Any]) -> Plan:
    """A plan of a year whose attributes beside three plain ones are recorded."""
    number = {"kind": "number", "edges": ["0", "1", "2", "1000"], "other": "?"}
    plan = make_plan(window=DAY, windows=366, start=FIRST)
    more = Domain.from_json([{**number, "name": str(i), "from": e} for i, e in enumerate(entries)])
    return replace(plan, domain=Domain((*plan.domain.attributes, *more.attributes)))


def taken(event: str, take: str, days: int = 7) -> dict[str, str]:
    return {"event": event, "take": take, "over": f"{days}d"}


class At:
    """A recorder, and its clock in days after the first midnight."""

    def __init__(self, plan: Plan, store: Any = None) -> None:
        self.now, self.plan = 0.0, plan
        self.store = store or MemoryStore()
        self.recorder = self.again()

    def again(self) -> Recorder:
        return Recorder(
            self.plan, self.store, clock=lambda: round((FIRST + self.now * DAY) * 1000),
            policy=LARGE, allow_unsigned=True,
        )  # fmt: skip

    def note(self, day: float, event: str = "e", value: float = 1) -> None:
        self.now = day
        self.recorder.note(event, value)

    def record(self, day: float) -> list[object]:
        self.now = day
        found = self.recorder.record()
        return [found.get(name) for name in self.plan.domain.names[3:]]


def naive(lived: Life, step: dict[str, Any]) -> dict[str, object]:
    """What a step's record must hold of events, from the whole life without wrong clocks."""
    window = lived.plan.window_at(step["now"])
    end = lived.plan.window_start(window) // (1000 * DAY)
    before = lived.steps[: lived.steps.index(step)]
    notes = [
        (each["now"] // (1000 * DAY), each["name"], float(each["value"]))
        for each in before
        if each["kind"] == "note"
        and type(each["value"]) in (int, float)
        and abs(each["value"]) <= 1e15
    ]
    found: dict[str, object] = {}
    for attribute in lived.plan.domain.attributes:
        source = attribute.recorded
        if source is None or not source.take:
            continue
        ever = [(day, value) for day, name, value in notes if name == source.name and day < end]
        here = [(day, value) for day, value in ever if day >= end - source.days]
        days, values = [day for day, _ in here], [value for _, value in here]
        value: object = {
            "count": len(here),
            "days": len(set(days)),
            "any": "yes" if here else "no",
            "sum": pytest.approx(sum(values), abs=1e-6, rel=1e-9),
            "max": max(values, default=None),
            "last": values[-1] if values else None,
            "days_since_first": min(end - 1 - ever[0][0], source.days) if ever else None,
            "days_since_last": min(end - 1 - ever[-1][0], source.days) if ever else None,
        }[source.take]
        if source.take == "any" and attribute.kind is not None:
            value = int(bool(here))
        if value is not None:
            found[attribute.field] = value
    return found


def test_a_calm_life_is_counted_exactly() -> None:
    compared = 0
    for seed in range(LIVES):
        lived = life(seed, calm=True)
        device = Device(lived)
        for step in lived.steps:
            answer = device.answer(step)
            if "record" in answer:
                states = {"colour", "size", "flag", "__proto__", "c"}
                counted = {k: v for k, v in answer["record"].items() if k not in states}
                assert counted == naive(lived, step)
                compared += len(counted)
    assert compared > 10 * LIVES


def test_no_day_is_counted_twice_by_clocks_that_are_set_back() -> None:
    for seed in range(LIVES):
        lived = life(seed, ahead=False)
        device = Device(lived)
        assert not twice(lived, [device.answer(step) for step in lived.steps])


def test_a_recorder_changes_no_moment_of_a_report() -> None:
    reports = 0
    for seed in range(LIVES):
        lived = life(seed)
        device = Device(lived)
        made, where = moments(lived, [device.answer(step) for step in lived.steps])
        assert not where
        reports += made
    assert reports > LIVES


def test_what_is_reported_is_the_record() -> None:
    plan = make_plan()
    store = MemoryStore()
    recorder = Recorder(plan, store, clock=lambda: START * 1000, policy=LARGE, allow_unsigned=True)
    for name, value in (("colour", "red"), ("size", "m"), ("flag", 1)):
        recorder.set(name, value)
    assert recorder.record() == {"colour": "red", "size": "m", "flag": 1}
    report = recorder.report()
    assert spelled(report, plan) is not None
    assert recorder.report() is None
    assert recorder.reporter.status() is Status.ALREADY_REPORTED


def test_a_clock_that_ran_ahead_costs_days_and_no_more() -> None:
    device = At(recorded_plan(taken("e", "days", 7), taken("e", "days_since_first", 90)))
    for day in (0, 1, 400, 2, 3.5, 4, 5):
        device.note(day)
    assert device.record(6) == [4, 5], "the days 0, 1, 4 and 5"
    assert device.recorder.dropped == {"clock": 2}


@pytest.mark.parametrize(("day", "counted"), [(10, True), (9, False), (-79, False), (-90, False)])
def test_a_clock_that_is_behind_counts_nothing(day: int, counted: bool) -> None:
    book = new_book()
    assert counts_on(book, 10)
    assert counts_on(book, day) == counted


def test_a_crash_loses_seconds_and_never_a_day(tmp_path: Path) -> None:
    plan = recorded_plan(taken("e", "count"), taken("e", "days"))
    device = At(plan, FileStore(tmp_path / "d"))
    for second in range(25):
        device.note(second / DAY)
    device.recorder = device.again()  # the process was killed: nothing of it is left
    assert device.record(1) == [21, 1], "written at 0, 10 and 20 seconds"
    device.note(1)
    device.recorder = device.again()
    assert device.record(2) == [22, 2]
    device.note(2.1)
    device.note(2.1)
    device.recorder.flush()
    device.recorder = device.again()
    assert device.record(3) == [24, 3]


def test_processes_that_share_a_store_add_up(tmp_path: Path) -> None:
    plan = recorded_plan(taken("e", "count"), taken("e", "max"), {"state": "s"})
    one, two = (At(plan, FileStore(tmp_path / "d")) for _ in range(2))
    for i in range(10):
        one.note(i / DAY, value=i)
        two.note(i / DAY, value=-i)
    two.recorder.set("s", 7)
    one.recorder.flush()
    two.recorder.flush()
    assert one.record(1) == [20, 9, 7]


@pytest.mark.parametrize("how", [Recorder.withdraw, Recorder.flush])
def test_withdrawing_erases(tmp_path: Path, how: Callable[[Recorder], None]) -> None:
    path = tmp_path / "d"
    device = At(recorded_plan(taken("e", "count")), FileStore(path))
    other = device.again()
    device.note(0)
    other.note("e")
    how(device.recorder)
    withdraw(device.store)
    assert device.store.read_events() == {}
    for recorder in (device.recorder, other):
        recorder.note("e")
        recorder.flush()
    assert b'"e"' not in (tmp_path / "d.events").read_bytes()
    assert device.record(1) == [0]
    assert device.recorder.report() is None
    rejoin(device.store)
    device.note(1)
    assert device.record(2) == [1]


@pytest.mark.parametrize("flushes", [False, True])
def test_nothing_outlives_a_withdrawal_after_which_the_person_takes_part_again(
    tmp_path: Path, flushes: bool
) -> None:
    device = At(recorded_plan(taken("e", "count"), {"state": "s"}), FileStore(tmp_path / "d"))
    device.note(0)
    device.note(0)  # waits in memory
    device.recorder.set("s", 1)
    device.recorder.note("unplanned")
    withdraw(device.store)
    rejoin(device.store)
    if flushes:
        device.recorder.flush()
        assert b'"e"' not in (tmp_path / "d.events").read_bytes()
    assert device.record(1) == [0, None]
    assert device.recorder.dropped == {}
    device.recorder.set("s", 1)
    device.note(1)
    assert device.record(2) == [1, 1]


def test_a_withdrawal_from_a_damaged_store_erases_what_was_recorded(tmp_path: Path) -> None:
    path = tmp_path / "d"
    device = At(recorded_plan(taken("e", "count")), FileStore(path))
    device.note(0)
    device.note(0)  # waits in memory
    whole = path.read_bytes()
    path.write_bytes(b"{}")
    for door in (device.recorder.withdraw, lambda: withdraw(FileStore(path))):
        with pytest.raises(FatalError, match="damaged"):
            door()
        assert b'"e"' not in (tmp_path / "d.events").read_bytes()
    path.write_bytes(whole)
    assert device.record(1) == [0]


def test_a_plan_of_the_lineage_continues_and_drops_what_it_does_not_name(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "d")
    first = At(recorded_plan(taken("e", "count"), taken("secret", "count")), store)
    first.note(0)
    first.note(0, "secret")
    second = At(recorded_plan(taken("e", "days")), store)
    second.note(1)
    assert second.record(2) == [2]
    assert b"secret" not in (tmp_path / "d.events").read_bytes()


def test_a_disk_that_fails_stops_nobody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    device = At(recorded_plan(taken("e", "count")), FileStore(tmp_path / "d"))
    device.note(0)
    write = store_module.write_durably

    def full(path: Path, data: bytes) -> None:
        if path.name.endswith(".events"):
            raise RecoverableError("no space")
        write(path, data)

    monkeypatch.setattr(store_module, "write_durably", full)
    device.note(0.5)
    assert device.recorder.trouble == "no space"
    assert device.record(1) == [2]
    device.recorder.report()
    monkeypatch.undo()
    device.recorder.flush()
    device.recorder = device.again()
    assert device.record(1) == [2]


@pytest.mark.parametrize("error", [RecoverableError("gone"), OSError("stale"), ValueError("odd")])
def test_a_store_that_neither_writes_nor_reads_stops_nobody(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    device = At(recorded_plan(taken("e", "count")), MemoryStore())

    def fail(*_: object) -> None:
        raise error

    def written_and_gone(change: Callable[[Document], Document]) -> None:
        change({})
        monkeypatch.setattr(device.store, "read_events", fail)
        raise error

    with monkeypatch.context() as broken:
        broken.setattr(device.store, "update_events", written_and_gone)
        device.note(0)
        assert device.recorder.trouble == str(error)
    monkeypatch.undo()
    device.recorder.flush()
    assert device.record(1) == [1]


@pytest.mark.parametrize("damage", [b"{}", b"", b'{"version":2}', None])
def test_a_file_that_cannot_be_read_is_an_error_and_stays(
    tmp_path: Path, damage: bytes | None
) -> None:
    path = tmp_path / "d.events"
    device = At(recorded_plan(taken("e", "count")), FileStore(tmp_path / "d"))
    device.note(0)
    raw = damage if damage is not None else path.read_bytes().replace(b'"e"', b'"f"')
    path.write_bytes(raw)
    with pytest.raises(FatalError, match=r"d\.events cannot be read"):
        device.again()
    device.note(1)
    assert "cannot be read" in device.recorder.trouble
    assert device.record(2) == [1]  # what waits; the device reports all the same
    assert device.recorder.report() is not None
    assert path.read_bytes() == raw
    withdraw(device.store)
    assert device.store.read_events() == {}
    assert b'"e"' not in path.read_bytes()
    device.recorder.flush()
    rejoin(device.store)
    device.note(1)
    assert device.record(2) == [1]


def test_what_is_kept_is_bounded_and_the_loss_is_said(tmp_path: Path) -> None:
    names = [f"event {i} " + "x" * 100 for i in range(100)]
    store = FileStore(tmp_path / "d")
    device = At(recorded_plan(*(taken(name, "sum", 90) for name in names)), store)
    for day in range(60):
        for name in names:
            device.recorder._waiting.events[name, (FIRST // DAY) + day] = [1, 1 / 3, 1 / 3, 1 / 3]
        device.now = day
        device.recorder.flush()
    assert MAX_BYTES / 2 < (tmp_path / "d.events").stat().st_size <= MAX_BYTES + 200
    assert device.recorder.dropped["room"] > 30
    assert device.record(60)[0] == pytest.approx(1 / 3 * (60 - device.recorder.dropped["room"]))


def test_no_argument_causes_an_error() -> None:
    device = At(recorded_plan(taken("e", "sum"), {"state": "s"}))
    odd: list[Any] = [None, [], {}, "x" * 10**6, float("nan"), 10**400, True, b"e", object()]
    for each in odd:
        device.recorder.note(each, 1)
        device.recorder.note("e", each)
        device.recorder.set(each, "a")
        device.recorder.set("s", each)
    assert device.recorder.dropped == {"unplanned": 2 * len(odd), "value": 2 * len(odd) - 2}
    for _ in range(10**5):
        device.note(0.5)
    assert device.record(1)[0] == 10**5
    assert len(json.dumps(device.store.read_events())) < 1000
