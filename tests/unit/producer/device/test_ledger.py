"""Check the ledger, which decides when a device may report, case by case."""

from __future__ import annotations

from calmstream.estimators.plan import Guarantee
from calmstream.producer.device.ledger import DeviceState, spent_elsewhere, status
from calmstream.producer.device.policy import Status
from tests.support.producer import START, WINDOW, make_plan

NEW = DeviceState(bytes(16))
EVERY_3 = Guarantee("w-event", 3)


def at(window: float) -> int:
    return round((START + window * WINDOW) * 1000)


def test_w_event_in_its_slot_and_never_twice_within_w() -> None:
    plan = make_plan(guarantee=EVERY_3, windows=9)
    slots = [Status.NOT_ITS_SLOT, Status.READY, Status.NOT_ITS_SLOT]
    assert [status(plan, 1, {}, at(w)) for w in range(3)] == slots
    entries = NEW.spend(plan, 4).under(plan.lineage)
    expected = [Status.ALREADY_REPORTED] * 7 + slots[1:]
    assert [status(plan, 1, entries, at(w)) for w in range(9)] == expected


def test_a_child_plan_gets_no_second_report_unless_it_states_the_sum() -> None:
    parent = make_plan(lineage_epsilon="1.5")
    entries = NEW.spend(parent, 0).under(parent.lineage)
    quiet = make_plan(name="child", epsilon="0.5")
    assert status(quiet, 0, entries, at(1)) is Status.BUDGET_SPENT
    short = make_plan(name="child", epsilon="0.5", lineage_epsilon="1.49999")
    assert status(short, 0, entries, at(1)) is Status.BUDGET_SPENT
    asking = make_plan(name="child", epsilon="0.5", lineage_epsilon="1.5")
    assert status(asking, 0, entries, at(1)) is Status.READY
    stranger = make_plan(lineage="1" * 32)
    assert status(stranger, 0, NEW.spend(parent, 0).under("1" * 32), at(1)) is Status.READY


def test_a_bound_outlives_the_reports_that_it_came_with() -> None:
    parent = make_plan(name="a", guarantee=EVERY_3, windows=90)
    child = make_plan(name="b", guarantee=EVERY_3, windows=90, epsilon="2")
    entries = NEW.spend(parent, 0).under(parent.lineage)
    assert spent_elsewhere(child, 60, entries) == 0
    assert status(child, 0, entries, at(60)) is Status.BUDGET_SPENT


def test_between_w_event_plans_the_longer_horizon_must_have_passed() -> None:
    short = make_plan(name="a", guarantee=EVERY_3, windows=90)
    long = make_plan(name="b", guarantee=Guarantee("w-event", 6), windows=90)
    entries = NEW.spend(short, 6).under(long.lineage)
    # Window 12 would do; the rule, which has to hold for unaligned plans too, waits one longer.
    got = {w: status(long, w % 6, entries, at(w)) for w in range(7, 14)}
    assert [w for w, s in got.items() if s is Status.READY] == [13]
    entries = NEW.spend(long, 6).under(short.lineage)
    got = {w: status(short, w % 3, entries, at(w)) for w in range(7, 14)}
    assert [w for w, s in got.items() if s is Status.READY] == [13]
