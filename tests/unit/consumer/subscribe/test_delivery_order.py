"""Check the order in which a subscriber receives sets, in whatever order compaction left them."""

from __future__ import annotations

from itertools import permutations

import pytest

from calmstream.consumer.subscribe.assembler import Snapshot
from calmstream.consumer.subscribe.subscribe import DeliveryOrder
from calmstream.estimators.wire.snapshot import Kind
from tests.support.publisher import count_of, published_plan, snapshot_of

PLAN = published_plan(groups=1, windows=50)
Shown = list[tuple[int, str]]


def a_set(window: int, kind: Kind) -> Snapshot:
    return snapshot_of(PLAN, window, kind, (1, 1), count_of([]))


FINALS = {window: a_set(window, Kind.FINAL) for window in range(6)}
TOTALS = {window: a_set(window, Kind.TOTAL) for window in range(6)}
EARLY = {window: a_set(window, Kind.EARLY) for window in range(6)}


def shown(order: DeliveryOrder, *sets: Snapshot, end: bool = True) -> Shown:
    snapshots = [snapshot for each in sets for snapshot in order.take(each)]
    snapshots += order.at_end() if end else ()
    return [(snapshot.window, snapshot.kind.value) for snapshot in snapshots]


@pytest.mark.parametrize("windows", list(permutations(range(4))))
def test_finals_come_in_order_and_once(windows: tuple[int, ...]) -> None:
    order = DeliveryOrder()
    snapshots = shown(order, *(FINALS[w] for w in windows), end=False)
    assert snapshots == [(w, "final") for w in range(4)]
    assert not order.holds()


def test_finals_and_totals_do_not_wait_for_each_other() -> None:
    assert shown(DeliveryOrder(), TOTALS[0], TOTALS[1], end=False) == [(0, "total"), (1, "total")]


def test_what_is_missing_at_the_end_is_not_waited_for() -> None:
    order = DeliveryOrder()
    assert shown(order, FINALS[3], FINALS[2], end=False) == []
    assert order.holds()
    assert shown(order) == [(2, "final"), (3, "final")]
    assert shown(order, FINALS[4], end=False) == [(4, "final")]


def test_it_begins_with_the_first_window_asked_for() -> None:
    order = DeliveryOrder(2)
    sets = (FINALS[0], EARLY[1], FINALS[1], TOTALS[1], FINALS[2], EARLY[3], FINALS[3])
    assert shown(order, *sets, end=False) == [(2, "final"), (3, "early"), (3, "final")]


def test_latest_shows_the_newest_of_each_kind_and_then_everything() -> None:
    order = DeliveryOrder(latest=True)
    there = (FINALS[0], TOTALS[0], EARLY[1], FINALS[1], TOTALS[1], EARLY[2])
    assert order.holds()
    assert shown(order, *there) == [(1, "final"), (1, "total"), (2, "early")]
    assert not order.holds()
    later = (EARLY[2], FINALS[2], TOTALS[2])
    assert shown(order, *later, end=False) == [(2, "early"), (2, "final"), (2, "total")]


def test_latest_does_not_show_an_early_set_of_a_window_that_is_final() -> None:
    order = DeliveryOrder(latest=True)
    assert shown(order, EARLY[1], FINALS[1]) == [(1, "final")]


def test_latest_of_nothing_waits_for_the_first() -> None:
    order = DeliveryOrder(latest=True)
    assert shown(order) == []
    assert shown(order, FINALS[0], end=False) == [(0, "final")]
