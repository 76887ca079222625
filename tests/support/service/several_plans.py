"""Small plans on one namespace of a real broker: their reports, and what must come out."""

from __future__ import annotations

import threading
import time
import uuid
from collections import Counter

import numpy as np

from calmstream.broker.kafka import connect
from calmstream.consumer.subscribe.subscribe import plan_names, subscribe
from calmstream.estimators.plan import Plan
from calmstream.estimators.wire.batch import Batch, encode_batch
from calmstream.estimators.wire.snapshot import Kind
from tests.support.plans import pair_plan
from tests.support.service.processes import until
from tests.support.service.recount import recount_grr, stored_counts

WINDOW = 5
GRACE = 15
"""Seconds for which a starved sender may hold a batch: the tests count none as late."""
REPORTS = 20


def small_plan(name: str, partitions: int = 2) -> Plan:
    """Return a plan of two groups with windows of five seconds that begins now."""
    start = int(time.time()) // WINDOW * WINDOW
    return pair_plan(name, start, WINDOW, windows=720, partitions=partitions, grace=GRACE)


class Sender:
    """Sends reports to every partition of some plans, a fifth of the batches twice."""

    def __init__(self, bootstrap: str, namespace: str, plans: list[Plan]) -> None:
        self.plans = plans
        self.sent: Counter[tuple[str, int]] = Counter()
        self._broker = connect(bootstrap)
        self._sink = self._broker.sink()
        self._namespace = namespace
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        turn = 0
        while not self._stop.wait(0.3):
            for plan in self.plans:
                self.send(plan, turn)
            turn += 1

    def send(self, plan: Plan, turn: int) -> None:
        """Send a batch to the partition whose turn it is."""
        group, partition = turn % 2, turn // 2 % plan.partitions
        period = plan.window_at(int(time.time() * 1000))
        batch = Batch(period, REPORTS, None, {"v": (np.arange(REPORTS) + turn) % 4})
        topic = plan_names(plan, self._namespace).reports(group)
        key, body = uuid.uuid4().bytes, encode_batch(plan, group, batch)
        for _ in range(2 if turn % 5 == 0 else 1):
            self._sink.send(topic, key, body, partition=partition).wait(30)
        self.sent[plan.name, period] += REPORTS

    def end(self) -> None:
        self._stop.set()
        self._thread.join(60)
        assert not self._thread.is_alive()

    def close(self) -> None:
        self.end()
        self._sink.close(10)
        self._broker.close()


def finals(plan: Plan, bootstrap: str, namespace: str) -> dict[int, int]:
    """Return the number of reports of each final, by window."""
    found = subscribe(plan, bootstrap, follow=False, namespace=namespace)
    return {one.window: one.manifest.reports for one in found if one.kind is Kind.FINAL}


def compare(plan: Plan, sender: Sender, bootstrap: str, namespace: str) -> int:
    """Await that state and finals are exactly what was sent; return the number of reports."""
    names = plan_names(plan, namespace)
    expected = recount_grr(bootstrap, list(names.all_reports))
    sent = {window: n for (name, window), n in sender.sent.items() if name == plan.name}
    assert sum(expected.values()) == sum(sent.values()) > 0

    def stored() -> bool:
        counts, _ = stored_counts(bootstrap, names.state)
        return bool(counts == expected)

    until(f"everything of {plan.name} is counted", stored, 120, pause=1.0)

    def published() -> dict[int, int]:
        found = finals(plan, bootstrap, namespace)
        return {window: found.get(window, -1) for window in sent}

    def all_final() -> bool:
        return -1 not in published().values()

    until(f"every window of {plan.name} is final", all_final, 120, pause=1.0)
    assert published() == sent
    return sum(sent.values())
