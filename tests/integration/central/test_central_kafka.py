"""Run the central model on a real broker, from raw records to releases."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from calmstream.broker.kafka import connect
from calmstream.broker.names import CentralNames
from calmstream.broker.transport import Broker
from calmstream.common.clock import SystemClock
from calmstream.consumer.central.aggregator import Aggregator
from calmstream.consumer.central.budget_account import BudgetAccount
from calmstream.consumer.central.metrics import CentralMetrics
from calmstream.consumer.central.subscribe import subscribe_releases
from calmstream.consumer.runtime.worker import Alone
from calmstream.estimators.central.plan import CentralPlan
from calmstream.estimators.randomness import SystemRandomness
from calmstream.producer.central.submit import submit

pytestmark = pytest.mark.kafka

DEADLINE = 60.0


@pytest.fixture
def broker(kafka_bootstrap: str) -> Iterator[Broker]:
    broker = connect(kafka_bootstrap)
    yield broker
    broker.close()


def test_every_window_is_released_once_and_an_idle_partition_does_not_hold_it(
    broker: Broker, tmp_path: Path
) -> None:
    plan = CentralPlan(
        name="central-kafka",
        purpose="tests",
        owner="tests",
        columns=("sex", "job"),
        epsilon="16",
        delta="1e-6",
        levels=2,
        start=int(time.time()) - 1,
        window=8,
        releases=2,
        partitions=3,
    )
    names = CentralNames(f"central-{uuid.uuid4().hex[:8]}", plan.name, plan.digest, plan.partitions)
    broker.topics().create(names.specs(plan.window * 1000))
    account = BudgetAccount.create(tmp_path / "budget.json", plan.new_ledger)
    other = BudgetAccount.create(tmp_path / "other.json", plan.new_ledger)
    users = [f"u{i}" for i in range(2000)]
    # In one batch: a slow broker cannot put a part of them into the second window.
    columns = [["F"] * 2000, ["nurse"] * 2000]
    assert submit(plan, broker, names, users, columns, batch_size=2000) == 2000
    run_to_the_end(plan, broker, names, account)
    releases = list(subscribe_releases(broker, names, follow=False))
    assert [r.manifest["window"] for r in releases] == [0, 1]
    # The records came just after the start; a slow broker may stamp them in the second window.
    total = [
        count
        for release in releases
        for table in release.levels.get(2, {"tables": []})["tables"]
        for count in table["counts"]
    ]
    assert len(total) == 1
    assert abs(total[0] - 2000) < 8 * max(r.levels[1]["stderr"] for r in releases) * 2
    assert all(entry.published for entry in account.read().entries)
    # A second account finds every window claimed: it pays nothing and releases nothing.
    run_to_the_end(plan, broker, names, other)
    assert other.read().entries == ()
    assert other.read().topic == account.read().topic != ""
    assert list(subscribe_releases(broker, names, follow=False)) == releases


def run_to_the_end(
    plan: CentralPlan, broker: Broker, names: CentralNames, account: BudgetAccount
) -> None:
    aggregator = Aggregator(
        plan,
        broker,
        names,
        account=account,
        clock=SystemClock(),
        randomness=SystemRandomness(),
        metrics=CentralMetrics(CollectorRegistry(), plan),
        software="test",
        raw_memory_bytes=1 << 30,
    )
    stop = threading.Event()
    thread = threading.Thread(target=Alone(aggregator, until_over=True).run, args=(stop,))
    thread.start()
    thread.join(DEADLINE)
    stop.set()
    thread.join(DEADLINE)
    assert not thread.is_alive()
    assert aggregator.finished
