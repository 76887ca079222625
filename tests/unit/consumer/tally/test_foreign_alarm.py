"""Check the limit on foreign records.

Foreign records belong to no plan that the worker knows. The tests are about which records count,
when the limit is passed, and what happens then.
"""

from __future__ import annotations

import pytest

from calmstream.common.errors import FatalError, Reason
from calmstream.common.settings import load
from calmstream.consumer.runtime.config import TallyConfig
from calmstream.consumer.tally.monitoring.foreign_alarm import ForeignRecordAlarm
from tests.support.tally import batch_id, small_plan
from tests.support.tally_bench import Stage, sample

FOREIGN = [Reason.UNDECODABLE, Reason.UNKNOWN_VERSION, Reason.UNKNOWN_PLAN]


def watch(**settings: object) -> ForeignRecordAlarm:
    given = {"poison_ratio": 0.5, "poison_records": 10, "poison_consecutive": 1000}
    return ForeignRecordAlarm(load(TallyConfig, **(given | settings)))


@pytest.mark.parametrize("reason", FOREIGN)
def test_a_run_of_foreign_records_passes_the_limit(reason: Reason) -> None:
    limit = watch(poison_consecutive=3, poison_records=100)
    for count in range(1, 5):
        limit.note(reason)
        assert limit.exceeded == (count >= 3)
    limit.note(None)
    assert not limit.exceeded


@pytest.mark.parametrize("reason", [r for r in Reason if r not in FOREIGN])
def test_no_other_reason_counts(reason: Reason) -> None:
    limit = watch(poison_consecutive=2)
    for _ in range(100):
        limit.note(reason)
        assert not limit.exceeded


def test_the_ratio_is_of_the_last_records_only() -> None:
    limit = watch()
    for _ in range(9):
        limit.note(Reason.UNKNOWN_PLAN)
        assert not limit.exceeded, "too few records to say"
    limit.note(Reason.UNKNOWN_PLAN)
    assert limit.exceeded
    for good in range(1, 6):
        limit.note(Reason.LATE if good % 2 else None)
        assert limit.exceeded == (good < 5)
    for _ in range(5):
        limit.note(None)
    limit.note(Reason.UNDECODABLE)
    assert not limit.exceeded


def test_stopping_is_opt_in_and_loses_nothing() -> None:
    stage = Stage(small_plan(), {"poison_consecutive": 5})
    worker = stage.worker()
    stage.batch(0, [1])
    for number in range(7):
        stage.send(batch_id(number), b"{")
    stage.turns(worker)
    assert sample(worker, "poison_limit_exceeded") == 1
    assert sample(worker, "reports_accepted_total") == 1
    assert len(stage.dead_letters()) == 7
    worker.finish()
    for number in range(7):
        stage.send(batch_id(number), b"{")
    strict = stage.worker(poison_stop=True)
    with pytest.raises(FatalError, match=r"5 of the last 5 .*dead letters"):
        stage.turns(strict)
    strict.abandon()
    calm = stage.worker()
    stage.batch(0, [2])
    stage.turns(calm)
    assert sample(calm, "poison_limit_exceeded") == 0, "a good record came last"
    assert stage.states()[-1].open[0].tally.reports == 2
    assert len({(a.partition, a.offset) for a, _ in stage.dead_letters()}) == 14
