"""Which record counts, the stated vector of offsets, and when a window waits."""

from __future__ import annotations

import pytest

from calmstream.common.errors import FatalError
from calmstream.consumer.publish.merge import StateMerger
from calmstream.estimators.wire.state import closed_key, partition_key
from tests.support.publisher import SlotLog, published_plan


def test_settled_windows_are_forgotten_but_their_closed_records_stay_known() -> None:
    plan = published_plan(groups=1, partitions=1)
    log = SlotLog(plan).report(0, 0).close(0).report(1, 1)
    merger = StateMerger(plan)
    merger.read(*log.closed(0))
    merger.read(*log.state())
    merger.settle(0)
    merger.read(*log.closed(0))  # a worker that was restored writes it again
    assert merger.final(0) is None
    assert merger.early(0) is None
    assert merger.closed_windows() == []
    assert merger.open_windows() == [1]
    assert list(merger.closed_records()) == [(0, 0, 0, 1)]
    merger.read(log.closed(0)[0], None)
    assert list(merger.closed_records()) == []


def test_two_different_closing_offsets_of_one_window_stop_the_publisher() -> None:
    plan = published_plan(groups=1, partitions=1)
    merger = StateMerger(plan)
    merger.read(*SlotLog(plan).close(0).closed(0))
    with pytest.raises(FatalError, match="closed at input offset 0 and at 1"):
        merger.read(*SlotLog(plan).report(0, 0).close(0).closed(0))


@pytest.mark.parametrize("key", [partition_key(5, 0), partition_key(0, 7), closed_key(9, 0, 1)])
def test_a_partition_outside_the_plan_is_refused(key: bytes) -> None:
    with pytest.raises(FatalError, match="which the plan does not have"):
        StateMerger(published_plan()).read(key, b"{}")


@pytest.mark.parametrize("key", [b"nonsense", b"1", b"1/2/3/4", b"\xff/0"])
def test_a_foreign_key_is_refused(key: bytes) -> None:
    with pytest.raises(FatalError, match="foreign key"):
        StateMerger(published_plan()).read(key, b"{}")


def test_another_plans_state_is_refused() -> None:
    other = SlotLog(published_plan(epsilon="2")).report(0, 1)
    with pytest.raises(FatalError, match="another plan"):
        StateMerger(published_plan()).read(*other.state())
