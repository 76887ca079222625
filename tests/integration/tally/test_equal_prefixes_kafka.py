"""Count two plans side by side on real Kafka whose digests begin with 32 equal bits."""

from __future__ import annotations

import pytest

from calmstream.broker.kafka import connect
from calmstream.topics import ensure_topics
from tests.integration.tally.test_tally_kafka import run
from tests.support.service.running import until
from tests.support.tally import batch_id, body, names_of
from tests.unit.broker.test_equal_prefixes import alike

pytestmark = pytest.mark.kafka


def test_plans_with_equal_beginnings_are_counted_exactly(kafka_bootstrap: str) -> None:
    broker = connect(kafka_bootstrap)
    workers = []
    for number, plan in enumerate(alike(), start=1):
        names = names_of(plan)
        created = ensure_topics(broker, plan, names)
        assert names.state in created, "it is no other plan's"
        sink = broker.sink()
        for sent in range(number * 10):
            key = batch_id(sent)
            sink.send(names.reports(0), key, body(plan, 0, [sent % 4]), partition=0)
        sink.flush(60)
        workers.append((number, run(plan, broker, names)))
    for number, running in workers:

        def folded(running: object = running, wanted: int = number * 10) -> bool:
            folds = running.worker.folds.values()  # type: ignore[attr-defined]
            return sum(fold.next_offset for fold in folds) >= wanted

        until("all are read", folded, 60)
    for number, running in workers:
        (fold,) = running.worker.folds.values()
        assert fold.next_offset == number * 10
        running.end()
    broker.close()
