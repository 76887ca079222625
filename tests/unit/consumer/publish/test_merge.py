"""Which record counts, the stated vector of offsets, and when a window waits."""

from __future__ import annotations

import pytest

from calmstream.common.errors import FatalError
from calmstream.consumer.publish.merge import StateMerger
from calmstream.estimators.wire.snapshot import Kind
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
    assert merger.closed(0, Kind.FINAL) is None
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


OTHER = SlotLog(published_plan(epsilon="2")).report(0, 1).state()


@pytest.mark.parametrize(
    ("message", "key", "value"),
    [
        ("which the plan does not have", partition_key(5, 0), b"{}"),
        ("which the plan does not have", partition_key(0, 7), b"{}"),
        ("which the plan does not have", closed_key(9, 0, 1), b"{}"),
        *(("foreign key", key, b"{}") for key in (b"nonsense", b"1", b"1/2/3/4", b"\xff/0")),
        ("another plan", *OTHER),
    ],
)
def test_a_foreign_record_is_refused(message: str, key: bytes, value: bytes) -> None:
    with pytest.raises(FatalError, match=message):
        StateMerger(published_plan()).read(key, value)
