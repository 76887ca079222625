"""Check workers on real Kafka: spare and expelled members, and a topic that is deleted."""

from __future__ import annotations

import pytest
from kafka import KafkaAdminClient
from kafka.admin import MemberToRemove

from tests.support.service.recount import recount_grr, stored_counts
from tests.support.service.running import Stage, until

pytestmark = pytest.mark.kafka


def owned(*workers: object) -> list[float]:
    return [worker.metric("assigned_partitions") for worker in workers]


def test_spare_workers_are_ready_take_over_and_count_once(kafka_bootstrap: str) -> None:
    """Run three workers on one partition: when the owner leaves, another one takes over."""
    stage = Stage(kafka_bootstrap)
    workers = [stage.worker() for _ in range(3)]
    until("one owner", lambda: sorted(owned(*workers)) == [0, 0, 1], 90)
    stage.send(30)
    until("counted", lambda: stage.accepted() == 30, 60)
    owner = workers[owned(*workers).index(1)]
    spare = [w for w in workers if w is not owner]
    owner.end()
    until("a spare one owns it", lambda: sorted(owned(*spare)) == [0, 1], 60)
    stage.send(30)
    until("counted on", lambda: stage.accepted() == 60, 60)
    until("all are ready", lambda: all(w.worker.health.readiness().well for w in spare), 60)
    for worker in spare:
        worker.end()
    expected = recount_grr(kafka_bootstrap, list(stage.names.all_reports))
    assert stored_counts(kafka_bootstrap, stage.names.state)[0] == expected
    stage.close()


@pytest.mark.slow
def test_a_worker_that_was_expelled_goes_on_closing_windows(
    kafka_bootstrap: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Without reports only ticks close windows, and a fetch no longer returns the log's end."""
    stage = Stage(kafka_bootstrap, partitions=2, windows=600, window=1, grace=1, age=1)
    worker = stage.worker()

    def closed() -> int:
        folds = dict(worker.worker.folds)
        return min(fold.closed_through for fold in folds.values()) if len(folds) == 2 else -1

    until("windows close", lambda: closed() >= 3, 60)
    for turn in range(2):
        expel(kafka_bootstrap, f"{stage.names.output_prefix}.tally")
        until("it is back", lambda t=turn: worker.metric("rebalances_total") >= t + 2, 60)
        before = closed()
        until("more windows close", lambda b=before: closed() >= b + 3, 60)
    assert not [r for r in caplog.records if "multiple consumers" in r.getMessage()]
    stage.close()


def expel(bootstrap: str, group: str) -> None:
    """Remove the only member of a group, as after a missed session."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    (member,) = admin.describe_groups([group])[group]["members"]
    admin.remove_group_members(group, [MemberToRemove(member_id=member["member_id"])])
    admin.close()


def test_a_deleted_input_topic_stops_the_worker(kafka_bootstrap: str) -> None:
    stage = Stage(kafka_bootstrap)
    worker = stage.worker()
    stage.send(20)
    until("counted", lambda: stage.accepted() == 20, 60)
    stage.topics.delete([stage.names.reports(0)])
    message = worker.failure(60.0)
    assert message.startswith("FatalError")
    assert f"{stage.names.reports(0)} was deleted while it was in use" in message
    again = stage.worker().failure(60.0)
    assert "does not exist; create it: calmstream topics" in again
    stage.close()
