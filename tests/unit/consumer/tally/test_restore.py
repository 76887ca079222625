"""Check how a worker restores a partition from the state topic, and what makes it stop."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from calmstream.broker.transport import Partition, TopicInfo
from calmstream.common.errors import FatalError, RecoverableError
from calmstream.consumer.tally.log_ends import EndWatch
from calmstream.consumer.tally.restore import Restorer, check_log
from calmstream.estimators.tally import Tally
from calmstream.estimators.wire.state import (
    ClosedWindow,
    PartitionState,
    WindowCount,
    closed_key,
    encode_closed,
    encode_state,
    partition_key,
)
from tests.support.batches import ZSTD, frame
from tests.support.clock import ManualClock
from tests.support.tally import small_plan
from tests.support.tally_bench import Stage, worker_context

PLAN = small_plan(partitions=2, groups=3)
ZERO = WindowCount(Tally.zero(1, 4))
P = Partition("reports", 0)
INFO = TopicInfo("reports", "id", 1, {})


def state(
    next_offset: int = 10, resume_from: int = 5, topic_id: str = "id", clock: int = 0
) -> PartitionState:
    return PartitionState(topic_id, next_offset, clock, -1, resume_from, clock, ZERO, {})


@pytest.mark.parametrize(
    ("record", "info", "start", "end", "message"),
    [
        (None, INFO, 1, 9, "nothing was ever counted"),
        (state(), INFO, 6, 20, "starts at 6, needed from 5"),
        (state(), INFO, 10, 20, "starts at 10, needed from 5"),
        (state(), INFO, 11, 20, "needed from 5"),
        (state(), INFO, 5, 9, "ends at 9, but it was counted up to 10"),
        (state(topic_id="other"), INFO, 0, 20, "created again"),
        (state(), None, 0, 20, "does not exist"),
        (None, None, 0, 0, "does not exist"),
    ],
)
def test_a_log_that_contradicts_the_state_stops_the_worker(
    record: Any, info: Any, start: int, end: int, message: str
) -> None:
    with pytest.raises(FatalError, match=message):
        check_log(P, record, info, start, end)


@pytest.mark.parametrize(
    ("record", "start", "end"),
    [(None, 0, 0), (None, 0, 9), (state(), 5, 10), (state(), 0, 10), (state(10, 10), 10, 10)],
)
def test_a_log_that_agrees_with_the_state_is_read(record: Any, start: int, end: int) -> None:
    check_log(P, record, INFO, start, end)


def restorer(stage: Stage, reader: Any = None, clock: ManualClock | None = None) -> Restorer:
    context = worker_context(stage.plan, clock or ManualClock(), retry_seconds=1.0)
    ends = EndWatch(stage.topics, context.clock, 1.0)
    return Restorer(context, reader or stage.broker.reader(), stage.topics, ends, lambda: None)


def restored(stage: Stage, reader: Any = None) -> Any:
    """Return the fold of the only partition as a worker restores it."""
    return restorer(stage, reader).restore([stage.input()])[stage.input()]


def put(stage: Stage, key: bytes, value: bytes, partition: int = 0) -> None:
    stage.sink.send(stage.names.state, key, value, partition=partition).wait(1)


def write(stage: Stage, group: int, partition: int, next_offset: int) -> None:
    """Write a state record of an input partition that is counted up to ``next_offset``."""
    where = stage.input(partition, group)
    info = stage.topics.describe([where.topic])[where.topic]
    value = encode_state(stage.plan, state(next_offset, next_offset, info.id, stage.clock.now_ms()))
    put(stage, partition_key(group, partition), value, partition)


class Counting:
    """A reader that records its assignments and calls a function before every poll."""

    def __init__(self, reader: Any, before_poll: Any = lambda: None) -> None:
        self._reader = reader
        self._before = before_poll
        self.assigned = []

    def assign(self, partitions: Iterable[Partition]) -> None:
        self.assigned.append(set(partitions))
        self._reader.assign(partitions)

    def poll_chunks(self, _timeout: float, _max_records: int = 500) -> Any:
        self._before()
        return self._reader.poll_chunks(0.0, 1)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)


def test_all_groups_of_a_state_partition_are_restored_in_one_read() -> None:
    stage = Stage(PLAN)
    for group in range(3):
        for partition in range(2):
            for _ in range(group + 1):
                stage.batch(0, [1], group=group, partition=partition)
            write(stage, group, partition, group + 1)
    reader = Counting(stage.broker.reader())
    everything = [stage.input(p, g) for g in range(3) for p in range(2)]
    found = restorer(stage, reader).restore(everything)
    assert {p: fold.next_offset for p, fold in found.items()} == {
        stage.input(p, g): g + 1 for g in range(3) for p in range(2)
    }
    assert reader.assigned == [{Partition(stage.names.state, n) for n in range(2)}]


def test_a_record_that_compaction_moves_past_the_reader_is_found() -> None:
    """It is written again during the read, behind the end that was determined at its start."""
    stage = Stage(small_plan())
    for _ in range(3):
        stage.batch(0, [1])
    write(stage, 0, 0, 2)
    zero = ClosedWindow(0, 0, ZERO, ZERO)
    for window in range(5):
        put(stage, closed_key(0, 0, window), encode_closed(stage.plan, zero))
    moved = []

    def rewrite_and_compact() -> None:
        if not moved:
            moved.append(True)
            write(stage, 0, 0, 2)
            stage.broker.compact(stage.names.state, active=0)
            assert len(stage.states()) == 1

    fold = restored(stage, Counting(stage.broker.reader(), rewrite_and_compact))
    assert moved
    assert fold.next_offset == 2


FOREIGN = [
    b"hello",
    b"[]",
    b'{"next_offset": 1e400}',
    b'{"next_offset": 999}',
    b'{"v": "1.0", "next_offset": 999, "plan": "other"}',
]


@pytest.mark.parametrize("value", FOREIGN)
def test_foreign_values_in_the_state_topic_are_passed(value: bytes) -> None:
    stage = Stage(small_plan())
    stage.batch(0, [1])
    worker = stage.worker()
    stage.turns(worker)
    worker.finish()
    put(stage, partition_key(0, 0), value)
    raw = frame(b"no records", 3, codec=ZSTD)
    stage.broker.append_batch(Partition(stage.names.state, 0), raw)
    made = restorer(stage)
    counted = made.restore([stage.input()])[stage.input()].next_offset
    assert counted == made._ends.end(stage.input())
    assert counted == stage.topics.log_ends([stage.input()])[stage.input()] > 0


@pytest.mark.parametrize("value", FOREIGN)
def test_where_a_foreign_value_is_all_that_is_left_the_log_is_counted_again(value: bytes) -> None:
    stage = Stage(small_plan())
    stage.batch(0, [1])
    put(stage, partition_key(0, 0), value)
    assert restored(stage).next_offset == 0
    stage.topics.trim({stage.input(): 1})
    with pytest.raises(FatalError, match="nothing was ever counted"):
        restored(stage)


def test_an_altered_log_is_noticed() -> None:
    stage = Stage(small_plan())
    stage.batch(0, [1])
    stage.batch(0, [1])
    info = stage.topics.describe([stage.input().topic])[stage.input().topic]
    # A clock the log never had.
    wrong = PartitionState(info.id, 2, stage.clock.now_ms() + 5, -1, 0, 0, ZERO, {})
    put(stage, partition_key(0, 0), encode_state(stage.plan, wrong))
    with pytest.raises(FatalError, match="was it altered"):
        restored(stage)


def test_a_log_that_lost_its_records_and_has_grown_again_is_noticed() -> None:
    stage = Stage(small_plan())
    stage.batch(0, [1])
    write(stage, 0, 0, 2)  # two were counted by now, and nothing is open
    with pytest.raises(FatalError, match="the log ends at 1"):
        restored(stage)
    stage.clock.advance(0.001)
    stage.batch(0, [1])
    with pytest.raises(FatalError, match="lost records and has new ones in their place"):
        restored(stage)
    stage.batch(0, [1])
    write(stage, 0, 0, 3)
    assert restored(stage).next_offset == 3


def test_a_state_topic_that_does_not_answer_is_given_up_for_now() -> None:
    stage = Stage(small_plan())
    write(stage, 0, 0, 0)
    stage.broker.stall(Partition(stage.names.state, 0))
    clock = ManualClock()
    reader = Counting(stage.broker.reader(), lambda: clock.advance(0.2))
    with pytest.raises(RecoverableError, match="makes no progress"):
        restorer(stage, reader, clock).restore([stage.input()])
