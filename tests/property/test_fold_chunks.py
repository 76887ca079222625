"""Folding chunks of a log, cut anywhere, is folding its records one by one, bit for bit."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calmstream.broker.records import Chunk, in_chunks
from calmstream.broker.transport import Damage, Partition, Record
from calmstream.common.errors import Reason
from calmstream.consumer.tally.folding.admission import AdmissionControl
from calmstream.consumer.tally.folding.fold import PartitionFold
from calmstream.estimators.plan import Plan
from calmstream.estimators.plan.limits import PlanLimits
from calmstream.estimators.randomness import SeededRandomness
from calmstream.estimators.wire.batch import HEAD_BYTES, TICK, Batch, encode_batch, form_of
from calmstream.estimators.wire.state import encode_closed, encode_state
from tests.support.attacks.fuzzing import Message, messages, plan_of
from tests.support.tally import RecordOutcome, accepted_ids, fold_one, outcome_of

WHERE = Partition("reports", 0)
PLAN = plan_of()
PLANS = {
    "usual": PLAN,
    "tight": replace(PLAN, limits=PlanLimits(batch_reports=4, batches=12), grace=5, skew=3),
    "one window": replace(PLAN, expires=PLAN.start + PLAN.window, grace=0, skew=0),
}
GROUPS = range(len(PLAN.groups))


def boundary(plan: Plan, dice: random.Random) -> int:
    """Return a time within a millisecond of a window's close, or of its first reports."""
    window = dice.randrange(min(plan.windows, 4))
    close = plan.window_end(window) + plan.grace * 1000
    first = plan.window_start(window) - plan.skew * 1000
    return dice.choice((close, first)) + dice.choice((-1, 0, 0, 1, 1))


def log_of(plan: Plan, group: int, dice: random.Random, size: int) -> list[Record]:
    """Return a log: mostly valid batches, of which many are sent again, and some of everything."""
    stream = messages(plan, group, dice.randrange(1 << 30), pool=12)
    sent: list[Message] = []
    records: list[Record] = []
    now, offset = plan.start * 1000 + dice.choice((-8000, 0, 0, 25_000)), 0
    for _ in range(size):
        now += dice.choice((0, 0, 0, 1, 20, 300, 1500, -700))
        if dice.random() < 0.02:
            now += dice.choice((9_000, 12_000, 30_000, -15_000))
        if dice.random() < 0.05:
            now = boundary(plan, dice)
        offset += dice.choice((1, 1, 1, 2, 30))
        damage = None
        match dice.randrange(20):
            case 0:
                key, value = None, TICK
            case 1 | 2 if sent:
                key, value = dice.choice(sent)
            case 3 if sent:
                key, value = dice.choice(sent)[0], next(stream)[1]
            case 4 if dice.random() < 0.2:
                key, value, damage = None, b"raw", Damage(offset, 3, "a codec that is not known")
                offset += 2
            case 5 if dice.random() < 0.1:
                key, value = dice.randbytes(16), bytes([dice.randrange(2)]) * ((1 << 20) + 1)
            case _:
                key, value = next(stream)
                key = dice.randbytes(16) if key is not None and len(key) == 16 else key
        sent.append((key, value))
        records.append(Record(WHERE, offset, now, True, key, value, damage=damage))
    return records


def cut(records: list[Record], dice: random.Random) -> Iterator[Chunk]:
    at = 0
    while at < len(records):
        size = dice.choice((1, 3, 8, 9, 40, 200))
        yield from in_chunks(records[at : at + size])
        at += size


def shown(outcome: RecordOutcome, plan: Plan) -> tuple[object, ...]:
    why = outcome.rejection
    return (
        outcome.rejects,
        outcome.reports,
        None if why is None else (why.reason, why.detail, str(why)),
        [encode_closed(plan, window) for window in outcome.closed],
    )


def folded(fold: PartitionFold, chunk: Chunk) -> Iterator[RecordOutcome]:
    for result in fold.fold(chunk):
        assert list(result.rejects) == sorted(result.rejects)
        for index in range(len(result.records)):
            found = outcome_of(result, index)
            assert not (found.rejection and found.reports)
            yield found


def check(plan: Plan, group: int, seed: int, size: int) -> set[Reason | None]:
    """Fold a log both ways and compare; return the verdicts that occurred."""
    dice = random.Random(seed)
    records = log_of(plan, group, dice, size)
    single, joined = (PartitionFold.start(plan, group, "id") for _ in range(2))
    verdicts: set[Reason | None] = set()
    for chunk in cut(records, dice):
        for record, outcome in zip(chunk.records(), folded(joined, chunk), strict=True):
            expected = fold_one(single, record)
            assert shown(outcome, plan) == shown(expected, plan), record.offset
            why = expected.rejection
            verdicts.add(None if why is None else why.reason)
        assert encode_state(plan, joined.state()) == encode_state(plan, single.state())
        assert accepted_ids(joined) == accepted_ids(single)
        assert joined.admission.next_close == single.admission.next_close
        assert_restored_alike(plan, group, records, single, dice)
    return verdicts


def assert_restored_alike(
    plan: Plan, group: int, records: list[Record], fold: PartitionFold, dice: random.Random
) -> None:
    if dice.random() > 0.2:
        return
    state = fold.state()
    control = AdmissionControl(plan, group, state.resume_clock)
    again = [r for r in records if state.resume_from <= r.offset < state.next_offset]
    for chunk in cut(again, dice):
        control.replay(chunk)
    restored = PartitionFold(plan, group, control, state)
    ids = accepted_ids(fold)
    assert accepted_ids(restored) == ids
    resume = (state.resume_from, state.resume_clock) if any(ids.values()) else None
    assert control.resume_point() == resume


@pytest.mark.parametrize("name", sorted(PLANS))
@settings(max_examples=25, deadline=None)
@given(group=st.sampled_from(GROUPS), seed=st.integers(0, 1 << 30))
def test_chunks_give_what_records_give(name: str, group: int, seed: int) -> None:
    check(PLANS[name], group, seed, 120)


def test_the_logs_contain_every_verdict() -> None:
    found: set[Reason | None] = set()
    for seed in range(24):
        for name in ("usual", "tight"):
            found |= check(PLANS[name], seed % len(GROUPS), seed, 150)
    assert found == {None, *Reason} - {Reason.LENGTH_MISMATCH}, "a batch's length follows from n"


@pytest.mark.parametrize("n", [1, 3])
def test_a_batch_with_one_bad_value_is_the_only_one_rejected(n: int) -> None:
    """Check for every column of every mechanism the first value that is out of range."""
    plan = PLANS["usual"]
    for group, mechanism in enumerate(plan.mechanisms):
        columns = mechanism.perturb(np.zeros(n, np.int64), SeededRandomness(1))
        views = len(plan.groups[group].views)
        view = np.zeros(n, np.int64) if views > 1 else None
        good = encode_batch(plan, group, Batch(0, n, view, columns))
        bad, end = [], HEAD_BYTES
        for column in form_of(plan, group).every:
            integer = column.kind == "int"
            width = next(w for w in (1, 2, 4, 8) if column.bound <= 256**w)
            end += n * (width if integer else -(-column.bound // 8))
            raw = bytearray(good)
            if integer and column.bound < 256**width:
                raw[end - width : end] = column.bound.to_bytes(width, "little")
            elif not integer and column.bound % 8:
                raw[end - 1] |= 1 << column.bound % 8
            else:
                continue
            bad.append(bytes(raw))
        assert end == len(good)
        values = [good] * 10 + bad + [good] * 5
        records = [
            Record(WHERE, i, plan.start * 1000, True, bytes([i]) * 16, v)
            for i, v in enumerate(values)
        ]
        fold = PartitionFold.start(plan, group, "id")
        (chunk,) = in_chunks(records)
        outcomes = list(folded(fold, chunk))
        refused = {i: o.rejection.reason for i, o in enumerate(outcomes) if o.rejection}
        assert refused == {10 + i: Reason.OUT_OF_RANGE for i in range(len(bad))}
        assert fold.state().open[0].tally.reports == 15 * n
