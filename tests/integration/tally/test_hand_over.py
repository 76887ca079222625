"""Check that a worker stores the state of partitions that a rebalance takes, if that is quick."""

from __future__ import annotations

from calmstream.broker.transport import Partition
from tests.support.tally import batch_id, fields_of, small_plan
from tests.support.tally_bench import Stage, sample


def assert_state_is_the_log(stage: Stage, number: int) -> None:
    newest = max(stage.states(number), key=lambda s: s.next_offset)
    assert fields_of(newest) == fields_of(stage.recount(number).state())


def test_a_revoked_partition_is_saved_on_the_way_out() -> None:
    stage = Stage(small_plan(partitions=2), {"checkpoint_seconds": 600.0})
    first = stage.worker()
    stage.turns(first, count=1)
    for partition in (0, 1):
        for cell in range(3):
            stage.batch(0, [cell], partition=partition)
    stage.turns(first, count=2)
    assert stage.states(0) == stage.states(1) == []
    second = stage.worker()
    stage.turns(first, second, count=6, step=0.01)
    saved = [number for number in (0, 1) if stage.states(number)]
    assert len(saved) == 1, "one partition moved, one stayed"
    assert stage.states(saved[0])[-1].next_offset == 3
    assert sample(second, "records_read_total") == 0, "nothing was read twice"
    second.finish()
    first.finish()
    for number in (0, 1):
        assert_state_is_the_log(stage, number)


def test_a_hand_over_waits_for_dead_letters_but_not_for_ever() -> None:
    """Check that the next owner repeats a write that is not acknowledged in time."""
    stage = Stage(small_plan(partitions=2), {"checkpoint_seconds": 600.0, "retry_seconds": 900.0})
    first = stage.worker()
    stage.turns(first, count=1)
    stage.broker.stall(Partition(stage.names.dead_letters, 0))
    for partition in (0, 1):
        stage.send(batch_id(partition), b"{", partition=partition)
    stage.turns(first, count=2)
    second = stage.worker()
    stage.turns(first, second, count=6, step=0.01)
    assert stage.states(0) == stage.states(1) == []
    stage.broker.release(Partition(stage.names.dead_letters, 0))
    stage.turns(first, second, count=6, step=0.01)
    second.finish()
    first.finish()
    for number in (0, 1):
        assert_state_is_the_log(stage, number)
    assert {letter.partition for letter, _ in stage.dead_letters()} == {0, 1}
