"""Send many invented users through sender and aggregator, and print the memory that is used."""

from __future__ import annotations

import resource
import sys
import tempfile
from pathlib import Path

import numpy as np
from prometheus_client import CollectorRegistry

from calmstream.broker.names import CentralNames
from calmstream.consumer.central.aggregator import Aggregator
from calmstream.consumer.central.budget_account import BudgetAccount
from calmstream.consumer.central.metrics import CentralMetrics
from calmstream.consumer.central.subscribe import subscribe_releases
from calmstream.consumer.runtime.service import configure_logging
from calmstream.estimators.central.plan import CentralPlan
from calmstream.estimators.randomness import SystemRandomness
from calmstream.producer.central.submit import submit
from tests.support.clock import ManualClock
from tests.support.faulty_broker import FaultyBroker

START = 1_700_000_000
USERS, COLUMNS, VALUES = 60_000, 20, 450


def main() -> None:
    """Run the flood and print the results."""
    configure_logging("error")
    plan = CentralPlan(
        name="flood",
        purpose="tests",
        owner="tests",
        columns=tuple(f"c{j}" for j in range(COLUMNS)),
        epsilon="8",
        delta="1e-6",
        levels=3,
        start=START,
        window=60,
        releases=1,
    )
    clock = ManualClock(START * 1000)
    broker = FaultyBroker(clock.now_ms)
    names = CentralNames("test", plan.name, plan.digest, plan.partitions)
    broker.topics().create(names.specs(60_000))
    rng = np.random.default_rng(1)
    for start in range(0, USERS, 2000):
        # Half of the users follow one pattern, so that there is something to find.
        values = rng.integers(0, VALUES, (2000, COLUMNS))
        values[::2] = (values[::2, :1] + np.arange(COLUMNS)) % VALUES
        users = [f"made up {start + i}" for i in range(2000)]
        submit(plan, broker, names, users, [[f"v{v}" for v in column] for column in values.T])
    with tempfile.TemporaryDirectory() as folder:
        account = BudgetAccount.create(Path(folder) / "account", plan.new_ledger)
        aggregator = Aggregator(
            plan,
            broker,
            names,
            account=account,
            clock=clock,
            randomness=SystemRandomness(),
            metrics=CentralMetrics(CollectorRegistry(), plan),
            software="test",
            raw_memory_bytes=1 << 30,
            poll_seconds=0,
        )
        clock.advance(60)
        for _ in range(12):
            if not aggregator.finished:
                aggregator.turn()
            clock.advance(1.5)
        paid = len(account.read().entries)
    releases = list(subscribe_releases(broker, names, follow=False, poll_seconds=0))
    pairs = releases[0].levels[2]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    sys.stdout.write(
        f"paid={paid} released={len(releases)} candidates={pairs['candidates']} "
        f"pairs={sum(len(t['counts']) for t in pairs['tables'])} peak_mb={peak}\n"
    )


if __name__ == "__main__":
    main()
