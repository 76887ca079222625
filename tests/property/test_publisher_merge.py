"""Every snapshot equals the log up to its vector, for any log and any worker."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from calmstream.consumer.publish.merge import MergedWindow, StateMerger
from calmstream.estimators.wire.snapshot import Kind
from tests.support.publisher import SlotLog, histogram, published_plan, slot_logs

WINDOWS = 3
PLAN = published_plan(windows=WINDOWS)


@st.composite
def logs(draw: st.DrawFn) -> list[SlotLog]:
    made = slot_logs(PLAN)
    for log in made:
        closed = 0
        for step in draw(st.lists(st.integers(0, 11), max_size=14)):
            if step >= 8 and closed < WINDOWS:
                log.close(closed)
                closed += 1
            elif closed < WINDOWS:
                log.report(min(closed + step // 4, WINDOWS - 1), step % 4)
    return made


@st.composite
def state_topics(draw: st.DrawFn) -> tuple[list[SlotLog], list[tuple[bytes, bytes]]]:
    """Draw the records of a state topic as workers may leave them: late, early or twice."""
    made = draw(logs())
    records = []
    for log in made:
        prefixes = draw(st.lists(st.integers(0, len(log.events)), max_size=3))
        records += [log.state(below) for below in prefixes]
        for window in log.closed_windows():
            records += [log.closed(window)] * draw(st.integers(0, 2))
    shuffled = draw(st.randoms(use_true_random=False))
    shuffled.shuffle(records)
    return made, records


def expected(made: list[SlotLog], merged: MergedWindow) -> list[list[int]]:
    through = merged.kind is Kind.TOTAL
    cells: list[list[int]] = [[] for _ in PLAN.groups]
    for log, below in zip(made, merged.revision, strict=True):
        counted = log.through if through else log.cells
        cells[log.group] += counted(below, merged.window)
    return [histogram(counted) for counted in cells]


def counted(merged: MergedWindow) -> list[list[int]]:
    return [tally.counts[0].tolist() for tally in merged.tallies]


@settings(max_examples=150, deadline=None)
@given(state_topics())
def test_every_answer_equals_the_log_at_its_own_vector(
    topic: tuple[list[SlotLog], list[tuple[bytes, bytes]]],
) -> None:
    made, records = topic
    merger = StateMerger(PLAN)
    earlier: dict[int, tuple[int, ...]] = {}
    for record in records:
        merger.read(*record)
        for window in range(WINDOWS):
            early = merger.early(window)
            if early is not None:
                assert counted(early) == expected(made, early)
                # Reading on never takes a vector back.
                before = earlier.get(window, (0,) * len(made))
                assert all(a >= b for a, b in zip(early.revision, before, strict=True))
                earlier[window] = early.revision
            final, total = (merger.closed(window, kind) for kind in (Kind.FINAL, Kind.TOTAL))
            assert (final is None) == (total is None)
            if final is not None and total is not None:
                at = tuple(log.closed_at(window) for log in made)
                assert final.revision == total.revision == at
                assert counted(final) == expected(made, final)
                assert counted(total) == expected(made, total)
                assert early is None


@settings(max_examples=100, deadline=None)
@given(state_topics(), st.integers(0, 2**32))
def test_what_is_known_does_not_depend_on_the_order(
    topic: tuple[list[SlotLog], list[tuple[bytes, bytes]]], seed: int
) -> None:
    _, records = topic
    one, two = StateMerger(PLAN), StateMerger(PLAN)
    for record in records:
        one.read(*record)
    random.Random(seed).shuffle(records)
    for record in records:
        two.read(*record)
    assert one.open_windows() == two.open_windows()
    assert one.closed_windows() == two.closed_windows()
    assert one.waiting() == two.waiting()
    for window in range(WINDOWS):
        for kind in (Kind.EARLY, Kind.FINAL, Kind.TOTAL):
            first, second = (
                m.early(window) if kind is Kind.EARLY else m.closed(window, kind)
                for m in (one, two)
            )
            assert (first is None) == (second is None)
            if first is not None and second is not None:
                assert first.revision == second.revision
                assert counted(first) == counted(second)


@settings(max_examples=100, deadline=None)
@given(logs())
def test_all_records_of_all_logs_leave_no_window_waiting(made: list[SlotLog]) -> None:
    merger = StateMerger(PLAN)
    for log in made:
        merger.read(*log.state())
        for window in log.closed_windows():
            merger.read(*log.closed(window))
    assert merger.waiting() == []
    closed_everywhere = set.intersection(*(set(log.closed_windows()) for log in made))
    assert set(merger.closed_windows()) == closed_everywhere
