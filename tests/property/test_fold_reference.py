"""The fold of any records is what an independent recount finds, restored at any point."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calmstream.broker.records import in_chunks
from calmstream.broker.transport import Record
from calmstream.consumer.tally.folding.admission import AdmissionControl
from calmstream.consumer.tally.folding.fold import PartitionFold
from calmstream.estimators.plan import Plan
from calmstream.estimators.plan.limits import PlanLimits
from calmstream.estimators.wire.state import (
    PartitionState,
    decode_state,
    encode_state,
)
from tests.brokers.segments import Stored
from tests.support.service.admission_recount import Recount, Share
from tests.support.tally import (
    TOPIC_ID,
    accepted_ids,
    at,
    batch_id,
    body,
    fields_of,
    fold_one,
    plain,
    record,
    small_plan,
    tick,
)

PLANS = (
    small_plan(),
    small_plan(grace=0, skew=0),
    small_plan(grace=25, skew=15, windows=6),
    small_plan(windows=1, grace=1, skew=30),
    small_plan(grace=25, skew=15, windows=6, limits=PlanLimits(batch_reports=2, batches=2)),
)


def _named(plan: Plan) -> str:
    assert plan.limits is not None
    return f"g{plan.grace}s{plan.skew}w{plan.windows}b{plan.limits.batches}"


# A log is steps: the clock moves by some seconds (back too), then one of the record kinds comes.
steps = st.lists(
    st.tuples(
        st.sampled_from([0, 0, 0.001, 1, 2, 3, 3.001, 5, 10, 27, -1, -7, -30]),
        st.sampled_from(["batch", "batch", "batch", "batch", "tick", "bad", "foreign"]),
        st.integers(0, 7),  # period
        st.integers(0, 5),  # batch id, from few, so that resends happen
        st.lists(st.integers(0, 3), min_size=1, max_size=3),
        st.integers(1, 3),  # offset step: a log may have gaps
    ),
    max_size=30,
)


def build(plan: Plan, log: Any) -> list[Record]:
    records = []
    now, offset = -5.0, 0
    for move, kind, period, number, cells, gap in log:
        now += move
        offset += gap
        key, value = batch_id(number), body(plan, period, cells)
        if kind == "tick":
            records.append(tick(offset, at(now)))
            continue
        if kind == "bad":
            value = b"{"
        elif kind == "foreign":
            key = b"short"
        records.append(record(offset, at(now), key, value))
    return records


def taken(recount: Recount, one: Record) -> None:
    recount.read([Stored(one.offset, one.timestamp, True, one.key, one.value)])


def counted(share: Share) -> tuple[int, list[int], dict[str, int]]:
    return share.cells.total(), [share.cells[cell] for cell in range(4)], dict(share.rejects)


def state_of(recount: Recount) -> dict[str, object]:
    still_open = [entry[:2] for entry in recount.counted if entry[2] >= recount.open_from]
    resume = min(still_open, default=(recount.next_offset, recount.clock))
    total = recount.through(recount.open_from - 1) + Share(rejects=recount.after_end)
    return {
        "topic_id": TOPIC_ID,
        "next_offset": recount.next_offset,
        "clock": recount.clock,
        "closed_through": recount.open_from - 1,
        "resume_from": resume[0],
        "resume_clock": resume[1],
        "total": counted(total),
        "open": {w: counted(s) for w, s in recount.windows.items() if w >= recount.open_from},
    }


def ids_of(recount: Recount) -> dict[int, frozenset[bytes]]:
    return {w: frozenset(ids) for w, ids in recount.seen.items() if w >= recount.open_from and ids}


def restore(plan: Plan, state: PartitionState, records: list[Record]) -> Any:
    """Return the fold as a worker restores it from a state record and the log after it."""
    admission = AdmissionControl(plan, 0, state.resume_clock)
    for r in records:
        if state.resume_from <= r.offset < state.next_offset:
            admission.replay(*in_chunks([r]))
    return PartitionFold(plan, 0, admission, state)


@pytest.mark.parametrize("plan", PLANS, ids=_named)
@settings(max_examples=60, deadline=None)
@given(log=steps)
def test_every_record_equals_the_recount(plan: Plan, log: Any) -> None:
    fold, recount = PartitionFold.start(plan, 0, TOPIC_ID), Recount(plan, 0)
    closed = []
    for r in build(plan, log):
        closed += fold_one(fold, r).closed
        taken(recount, r)
        assert fields_of(fold.state()) == state_of(recount)
        assert accepted_ids(fold) == ids_of(recount)
    assert [(c.window, c.closed_at) for c in closed] == list(recount.closed_at.items())
    for c in closed:
        assert plain(c.count) == counted(recount.windows.get(c.window, Share()))
        assert plain(c.total) == counted(recount.through(c.window))


@pytest.mark.parametrize("plan", PLANS, ids=_named)
@settings(max_examples=40, deadline=None)
@given(log=steps)
def test_a_restore_at_every_prefix_is_the_live_state(plan: Plan, log: Any) -> None:
    records = build(plan, log)
    live = PartitionFold.start(plan, 0, TOPIC_ID)
    for index in range(len(records) + 1):
        if index:
            fold_one(live, records[index - 1])
        state = decode_state(plan, 0, encode_state(plan, live.state()))
        restored = restore(plan, state, records)
        assert fields_of(restored.state()) == fields_of(live.state())
        assert accepted_ids(restored) == accepted_ids(live)
        assert restored.admission.next_close == live.admission.next_close


@settings(max_examples=80, deadline=None)
@given(
    sends=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=25),
    moves=st.lists(st.sampled_from([0, 0.5, 3, 8, 13, -4]), min_size=25, max_size=25),
    cuts=st.sets(st.integers(0, 25), max_size=4),
)
def test_a_unique_cell_counts_once_if_some_copy_was_admissible(
    sends: Any, moves: Any, cuts: Any
) -> None:
    """Use one cell for each (period, id), so that a count of two shows double counting."""
    plan = small_plan()
    fold = PartitionFold.start(plan, 0, TOPIC_ID)
    records, admissible, closed, now = [], set(), [], -3.0
    for offset, ((period, number), move) in enumerate(zip(sends, moves, strict=False)):
        now += move
        # The cell identifies the batch within its window; the window gives the rest.
        records.append(record(offset, at(now), batch_id(number), body(plan, period, [number])))
        clock = max(r.timestamp for r in records)
        starts, ends = at(period * 10 - plan.skew), at(period * 10 + 10 + plan.grace)
        if starts <= clock <= ends:
            admissible.add((period, number))
        closed += fold_one(fold, records[-1]).closed
        if offset in cuts:
            fold = restore(plan, decode_state(plan, 0, encode_state(plan, fold.state())), records)
    got = {c.window: c.count for c in closed} | dict(fold.state().open)
    for period in range(plan.windows):
        cells = got[period].tally.counts[0].tolist() if period in got else [0] * 4
        assert cells == [int((period, number) in admissible) for number in range(4)]
