"""Check the ledger, which decides when a device may report, case by case."""

from __future__ import annotations

from calmstream.estimators.plan import Guarantee
from calmstream.producer.device.ledger import DeviceState, spent_elsewhere, status
from calmstream.producer.device.policy import Status
from tests.support.producer import START, WINDOW, make_plan

NEW = DeviceState(bytes(16))
EVERY_3 = Guarantee("w-event", 3)


def at(window: float) -> int:
    """Return the milliseconds at a place within a window."""
    return round((START + window * WINDOW) * 1000)


def test_once_is_once_in_any_window() -> None:
    plan = make_plan()
    entries = NEW.spend(plan, 2).under(plan.lineage)
    for window in range(6):
        assert status(plan, 0, entries, at(window)) is Status.ALREADY_REPORTED


def test_w_event_in_its_slot_and_never_twice_within_w() -> None:
    plan = make_plan(guarantee=EVERY_3, windows=9)
    assert [status(plan, 1, {}, at(w)) for w in range(3)] == [
        Status.NOT_ITS_SLOT,
        Status.READY,
        Status.NOT_ITS_SLOT,
    ]
    entries = NEW.spend(plan, 4).under(plan.lineage)
    expected = [Status.ALREADY_REPORTED] * 7 + [Status.READY, Status.NOT_ITS_SLOT]
    assert [status(plan, 1, entries, at(w)) for w in range(9)] == expected


def test_a_clock_that_goes_back_does_not_ask_again() -> None:
    plan = make_plan(guarantee=EVERY_3, windows=9)
    entries = NEW.spend(plan, 7).under(plan.lineage)
    assert status(plan, 1, entries, at(4)) is Status.ALREADY_REPORTED
    assert status(plan, 1, entries, at(1)) is Status.ALREADY_REPORTED


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


def test_the_smallest_bound_that_was_answered_binds_every_later_plan() -> None:
    parent = make_plan(name="a", epsilon="0.5", lineage_epsilon="1")
    entries = NEW.spend(parent, 0).under(parent.lineage)
    assert entries[parent.digest].bound == "1"
    raised = make_plan(name="b", epsilon="0.5", lineage_epsilon="8")
    assert status(raised, 0, entries, at(1)) is Status.READY
    more = make_plan(name="b", epsilon="0.6", lineage_epsilon="8")
    assert status(more, 0, entries, at(1)) is Status.BUDGET_SPENT
    both = NEW.spend(parent, 0).spend(raised, 1).under(parent.lineage)
    assert status(make_plan(name="c", lineage_epsilon="8"), 0, both, at(2)) is Status.BUDGET_SPENT


def test_a_bound_outlives_the_reports_that_it_came_with() -> None:
    parent = make_plan(name="a", guarantee=EVERY_3, windows=90)
    child = make_plan(name="b", guarantee=EVERY_3, windows=90, epsilon="2")
    entries = NEW.spend(parent, 0).under(parent.lineage)
    assert spent_elsewhere(child, 60, entries) == 0
    assert status(child, 0, entries, at(60)) is Status.BUDGET_SPENT


def test_a_once_report_counts_for_ever_under_a_w_event_child_and_the_reverse() -> None:
    once = make_plan(name="a")
    child = make_plan(name="b", guarantee=EVERY_3, windows=90)
    entries = NEW.spend(once, 0).under(child.lineage)
    assert status(child, 0, entries, at(60)) is Status.BUDGET_SPENT
    later = make_plan(name="c", windows=90)
    entries = NEW.spend(child, 0).under(child.lineage)
    assert status(later, 0, entries, at(80)) is Status.BUDGET_SPENT


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
