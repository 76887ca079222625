"""Check how the publisher merges the states of all partitions.

The tests are about which record counts, the stated *vector* (one offset for each input partition),
and when a window has to wait.
"""

from __future__ import annotations

import numpy as np
import pytest

from calmstream.common.errors import FatalError, Reason
from calmstream.consumer.publish.merge import MergedWindow, StateMerger
from calmstream.estimators.wire.snapshot import Kind
from calmstream.estimators.wire.state import closed_key, partition_key
from tests.support.publisher import SlotLog, histogram, published_plan, slot_logs


def histograms(merged: MergedWindow | None) -> list[list[int]]:
    assert merged is not None
    return [tally.counts[0].tolist() for tally in merged.tallies]


def test_nothing_read_is_an_empty_window_at_the_zero_vector() -> None:
    merged = StateMerger(published_plan()).early(0)
    assert merged is not None
    assert merged.revision == (0, 0, 0, 0)
    assert merged.reports == 0
    assert [t.counts.shape for t in merged.tallies] == [(1, 4), (1, 4)]


def test_early_sums_open_counts_of_all_partitions_group_by_group() -> None:
    plan = published_plan()
    logs = slot_logs(plan)
    for log, cells in zip(logs, ([0], [1, 1], [2, 2, 2], []), strict=True):
        log.report(0, *cells)
    merger = StateMerger(plan)
    for log in logs[:3]:
        merger.read(*log.state())
    merged = merger.early(0)
    assert histograms(merged) == [[1, 2, 0, 0], [0, 0, 3, 0]]
    assert merged is not None
    assert merged.revision == (1, 2, 3, 0)
    assert (merged.window, merged.kind, merged.reports) == (0, Kind.EARLY, 6)


def test_the_largest_next_offset_wins_whatever_came_last() -> None:
    plan = published_plan(groups=1, partitions=1)
    log = SlotLog(plan).report(0, 0, 1, 2, 3)
    merger = StateMerger(plan)
    for below in (3, 4, 1):
        merger.read(*log.state(below))
    merged = merger.early(0)
    assert merged is not None
    assert merged.revision == (4,)
    assert merged.reports == 4


def test_early_prefers_the_closed_record_and_names_its_offset() -> None:
    plan = published_plan(groups=1)
    first, second = slot_logs(plan)
    first.report(0, 1, 1).close(0).report(1, 3)
    second.report(0, 2)
    merger = StateMerger(plan)
    for record in (first.closed(0), first.state(), second.state()):
        merger.read(*record)
    merged = merger.early(0)
    assert histograms(merged) == [[0, 2, 1, 0]]
    assert merged is not None
    assert merged.revision == (2, 1)
    assert merger.final(0) is None
    assert merger.total(0) is None


def test_a_closed_record_counts_before_its_partition_record_says_so() -> None:
    plan = published_plan(groups=1, partitions=1)
    log = SlotLog(plan).report(0, 1).close(0)
    merger = StateMerger(plan)
    merger.read(*log.state(1))
    merger.read(*log.closed(0))
    merged = merger.final(0)
    assert merged is not None
    assert merged.revision == (1,)


def test_a_window_waits_for_a_closed_record_that_must_exist() -> None:
    plan = published_plan(groups=1)
    first, second = slot_logs(plan)
    first.report(0, 1).close(0)
    second.report(0, 2).report(1, 3)
    merger = StateMerger(plan)
    merger.read(*first.state())
    merger.read(*second.state())
    assert merger.early(0) is None
    assert merger.final(0) is None
    assert merger.waiting() == [0]
    assert merger.early(1) is not None
    merger.read(*first.closed(0))
    assert merger.early(0) is not None
    assert merger.waiting() == []


def test_final_and_total_depend_only_on_the_closed_records() -> None:
    plan = published_plan(groups=1)
    logs = slot_logs(plan)
    logs[0].report(0, 0).close(0).report(1, 1, 1).close(1).report(2, 3)
    logs[1].close(0).report(1, 2).report(2, 3, 3).close(1)
    merger = StateMerger(plan)
    for log in logs:
        merger.read(*log.state())
        for window in (0, 1):
            merger.read(*log.closed(window))
    assert merger.closed_windows() == [0, 1]
    final, total = merger.final(1), merger.total(1)
    assert histograms(final) == [[0, 2, 1, 0]]
    assert histograms(total) == [[1, 2, 1, 0]]
    assert final is not None
    assert total is not None
    assert final.revision == total.revision == (4, 4)
    assert final.counts[0].rejects == {Reason.LATE: 2}
    assert total.counts[0].rejects == {Reason.LATE: 4}


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


def test_closed_records_are_offered_for_deletion_only_once_settled() -> None:
    plan = published_plan(groups=1, partitions=1)
    log = SlotLog(plan).close(0)
    merger = StateMerger(plan)
    merger.read(*log.closed(0))
    assert list(merger.closed_records()) == []


def test_open_windows_are_those_with_counts_and_not_closed_everywhere() -> None:
    plan = published_plan(groups=1)
    first, second = slot_logs(plan)
    first.report(0, 0).close(0).report(2, 1)
    second.close(0)
    merger = StateMerger(plan)
    for record in (first.closed(0), first.state(), second.state(0)):
        merger.read(*record)
    assert merger.open_windows() == [0, 2]
    merger.read(*second.closed(0))
    assert merger.open_windows() == [2]


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


def test_merging_does_not_change_what_was_read() -> None:
    plan = published_plan(groups=1)
    logs = slot_logs(plan)
    merger = StateMerger(plan)
    for log in logs:
        log.report(0, 1, 2).close(0)
        merger.read(*log.closed(0))
    first = histograms(merger.final(0))
    assert first == histograms(merger.final(0)) == [histogram([1, 2, 1, 2])]
    merged = merger.final(0)
    assert merged is not None
    assert merged.tallies[0].counts.dtype == np.int64
