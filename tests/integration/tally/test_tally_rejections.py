"""A worker rejects bad records, counts them by reason, keeps dead letters, and continues."""

from __future__ import annotations

import gzip
from typing import Any

import pytest

from calmstream.common.errors import Reason
from calmstream.consumer.tally.writing.records import KEPT_PER_REASON, MAX_KEPT_BYTES
from calmstream.estimators.plan.limits import PlanLimits
from calmstream.estimators.wire.batch import MAX_BATCH_BYTES, TICK
from calmstream.estimators.wire.dead_letter import content_hash
from tests.support.batches import GZIP, frame
from tests.support.forged import forged
from tests.support.tally import batch_id, body, small_plan
from tests.support.tally_bench import Stage, sample

PLAN = small_plan(groups=2)
GOOD = body(PLAN, 0, [1, 2])  # a valid batch of two reports for window 0


def changed(cells: list[int] | None = None, **fields: Any) -> bytes:
    return forged(fields.pop("plan", PLAN.digest), cells or [1, 2], **fields)


KEY = batch_id(1)  # a valid key, the id of the batch

# Each bad record: the reason of its rejection, a description, its key and its value.
BAD = [
    (Reason.UNDECODABLE, "not JSON", KEY, b"\xff\x00garbage"),
    (Reason.UNDECODABLE, "a tick with a key", KEY, TICK),
    (Reason.UNKNOWN_VERSION, "newer version", KEY, changed(version=2)),
    (Reason.UNKNOWN_PLAN, "foreign plan", KEY, changed(plan="0" * 64)),
    (Reason.OVERSIZED, "too many bytes", KEY, b" " * (MAX_BATCH_BYTES + 1)),
    (Reason.MALFORMED, "truncated", KEY, GOOD[:-1]),
    (Reason.BAD_BATCH_ID, "no id", None, GOOD),
    (Reason.WRONG_GROUP, "other group", KEY, body(PLAN, 0, [1, 2], group=1)),
    (Reason.OUT_OF_RANGE, "cell 4 of 4", KEY, changed([1, 4])),
    (Reason.AFTER_END, "window past the last", KEY, body(PLAN, 4, [1])),
    (Reason.EARLY, "two windows ahead", KEY, body(PLAN, 2, [1])),
]


@pytest.mark.parametrize(
    ("reason", "what", "key", "value"), BAD, ids=[f"{r}-{w}" for r, w, *_ in BAD]
)
def test_it_is_counted_and_kept_and_the_stream_goes_on(
    reason: Reason, what: str, key: bytes | None, value: bytes | None
) -> None:
    stage = Stage(PLAN)
    worker = stage.worker()
    offset = stage.send(key, value)
    stage.batch(0, [3])
    stage.turns(worker)
    assert sample(worker, "rejections_total", reason=reason.value) == 1
    assert sample(worker, "rejections_total") == 1
    assert sample(worker, "reports_accepted_total", group="0") == 1
    ((dead_letter, kept),) = stage.dead_letters()
    assert dead_letter.reason is reason
    assert (dead_letter.topic, dead_letter.partition, dead_letter.offset) == (
        *stage.input(),
        offset,
    )
    assert dead_letter.timestamp == stage.broker.records(stage.input())[0].timestamp
    assert dead_letter.plan == PLAN.digest
    assert kept.value == (value or b"")[:MAX_KEPT_BYTES]
    assert (dead_letter.length, dead_letter.sha256) == (len(value or b""), content_hash(value))
    assert (dead_letter.first_offset, dead_letter.records) == (offset, 1)
    assert kept.key == key
    state = stage.states()[-1]
    assert dict(state.open[0].rejects) == {reason: 1}
    assert state.open[0].tally.counts.tolist() == [[0, 0, 0, 1]]
    worker.finish()


def test_every_reason_has_its_test() -> None:
    elsewhere = {Reason.DUPLICATE, Reason.OVER_LIMIT, Reason.LATE, Reason.LENGTH_MISMATCH}
    assert {r for r, *_ in BAD} | elsewhere == set(Reason)


def test_the_plans_limits_are_checked_last_and_a_rejected_id_can_be_used_again() -> None:
    stage = Stage(small_plan(limits=PlanLimits(batch_reports=2, batches=2)))
    worker = stage.worker()
    stage.batch(0, [1, 2, 3], number=1)  # too many reports
    stage.batch(0, [1, 2], number=1)  # accepted: the rejected batch does not count as its sender
    stage.batch(0, [3], number=2)
    stage.batch(0, [3], number=3)  # a third batch: over the limit of two
    stage.batch(0, [1, 2], number=1)  # sent again: a duplicate, although the limit is reached, too
    stage.move_to(9)
    stage.batch(1, [0], number=3)  # accepted: the limit is per window
    stage.turns(worker)
    assert sample(worker, "rejections_total", reason="over_limit") == 2
    assert sample(worker, "rejections_total", reason="duplicate") == 1
    assert [dead_letter.offset for dead_letter, _ in stage.dead_letters()] == [0, 3, 4]
    state = stage.states()[-1]
    assert state.open[0].tally.counts.tolist() == [[0, 1, 1, 1]]
    assert state.open[1].tally.counts.tolist() == [[1, 0, 0, 0]]


def test_records_that_cannot_be_decoded_are_one_rejection_at_their_last_offset() -> None:
    stage = Stage(PLAN)
    worker = stage.worker()
    stage.batch(0, [3])
    raw = frame(gzip.compress(b"no records"), 7, codec=GZIP)
    assert stage.broker.append_batch(stage.input(), raw) == 1
    stage.batch(0, [2], number=9)
    stage.turns(worker)
    assert sample(worker, "rejections_total", reason="undecodable") == 1
    assert sample(worker, "reports_accepted_total", group="0") == 2
    ((dead_letter, kept),) = stage.dead_letters()
    assert (dead_letter.first_offset, dead_letter.offset, dead_letter.records) == (1, 7, 7)
    assert (kept.key, kept.value) == (None, raw)
    state = stage.states()[-1]
    assert state.next_offset == 9
    assert state.open[0].tally.counts.tolist() == [[0, 0, 1, 1]]


def test_a_flood_of_bad_records_leaves_a_bounded_number_of_dead_letters() -> None:
    """The worker dies in between; its last checkpoint knows the number of dead letters."""
    assert KEPT_PER_REASON > 110
    stage = Stage(PLAN)
    worker = stage.worker()
    for number in range(KEPT_PER_REASON - 10):
        stage.send(KEY, b"{")
        if number == 50:
            stage.turns(worker, step=0.0)
            worker.checkpoint()
        if number == 100:
            stage.turns(worker, step=0.0)
            worker.abandon()
            worker = stage.worker()
    stage.turns(worker, step=0.0)
    for _ in range(20):
        stage.send(KEY, b"{")
    stage.send(b"short", GOOD)  # another reason has its own limit
    stage.turns(worker, step=0.0)
    origins = {dead_letter.offset for dead_letter, _ in stage.dead_letters()}
    assert origins == {*range(KEPT_PER_REASON), KEPT_PER_REASON + 10}
    assert sample(worker, "dead_letters_omitted_total") == 10
    worker.checkpoint()
    rejects = stage.states()[-1].open[0].rejects
    assert dict(rejects) == {Reason.UNDECODABLE: KEPT_PER_REASON + 10, Reason.BAD_BATCH_ID: 1}
