"""Check that workers and readers continue after every kind of hostile batch in a log."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest

from calmstream.broker.kafka import connect
from calmstream.broker.names import TopicNames
from calmstream.common.clock import SystemClock
from calmstream.common.errors import Reason
from calmstream.consumer.operations.inspect import inspect
from tests.brokers.native import PATIENT, NativeKafka
from tests.brokers.planted import now_ms, plant, stamped
from tests.support.attacks.hostile import kinds
from tests.support.batches import Row, encode_rows
from tests.support.service.processes import until
from tests.support.service.running import Stage
from tests.support.tally import body

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def kafka() -> Iterator[NativeKafka]:
    with NativeKafka(properties=PATIENT) as broker:
        yield broker


def test_a_log_of_every_hostile_batch_is_counted_exactly(kafka: NativeKafka) -> None:
    """Count honest reports between hostile ones; a second count must give the same result."""
    stage = Stage(kafka.bootstrap, windows=2, window=600, grace=1, age=5)

    def honest() -> Row:
        return Row(body(stage.plan, 0, [1]), secrets.token_bytes(16))

    hostile = kinds(honest)
    batches, accepted, rejected = [], 0, 0
    for one in hostile.values():
        batches.append(stamped(encode_rows([honest()]), 1, now_ms()))
        batches.append(stamped(one.payload, one.count, now_ms(), **one.stated()))
        accepted += 1 + one.accepted
        rejected += one.rejected
    where = stage.inputs()[0]
    (end,) = plant(kafka, {where: batches}).values()
    reached = connect(kafka.bootstrap)
    assert reached.topics().log_ends([where])[where] == end
    reached.close()
    worker = stage.worker()
    until("it is counted", lambda: worker.metric("reports_accepted_total") == accepted, 60)
    until("the rest is rejected", lambda: worker.metric("rejections_total") == rejected, 60)
    stage.send(3)
    until("later reports", lambda: worker.metric("reports_accepted_total") > accepted, 60)
    worker.end()
    first = inspect(stage.plan, stage.broker, stage.names, SystemClock())
    expected = {Reason.OVERSIZED.value: 1, Reason.UNDECODABLE.value: rejected - 1}
    assert first.rejected == expected
    again = TopicNames.of(stage.plan, stage.names.namespace, "again")
    stage.topics.create([s for s in again.specs(0) if s.name.startswith(again.output_prefix)])
    stage.names = again
    other = stage.worker()
    until("all again", lambda: other.metric("reports_accepted_total") == accepted + 3, 60)
    other.end()
    second = inspect(stage.plan, stage.broker, again, SystemClock())
    assert second.rejected == first.rejected
    stage.close()
