"""A process that serves a folder of plans, on a real broker, and what a test can see of it."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from calmstream.broker.kafka import connect
from calmstream.consumer.metrics.registry import plan_label
from calmstream.consumer.subscribe.subscribe import plan_names
from calmstream.estimators.plan import Plan
from calmstream.estimators.wire.batch import Batch, encode_batch
from tests.support.plans import pair_plan
from tests.support.service.processes import Process

REPORTS = 100
GRACE = 15
"""Seconds for which a starved test may hold a batch: the tests count none as late."""


def plan_of(name: str) -> Plan:
    return pair_plan(name, int(time.time()) // 5 * 5, window=5, windows=120, grace=GRACE)


class Scene:
    """A namespace, a folder of plans, and one process that serves it."""

    def __init__(self, bootstrap: str, path: Path) -> None:
        self.namespace = f"many-{uuid.uuid4().hex[:8]}"
        self.folder = path / "plans"
        self.folder.mkdir()
        self.broker = connect(bootstrap)
        self.sink = self.broker.sink()
        self.bootstrap = bootstrap
        where = ("--bootstrap", bootstrap, "--namespace", self.namespace)
        self.options = ("--plans", self.folder, "--allow-unsigned", *where)
        self.service = Process(path / "log", "consume", *self.options, "--create-topics")

    def put(self, plan: Plan) -> None:
        (self.folder / f"{plan.name}.json").write_bytes(plan.to_bytes())

    def send(self, plan: Plan, groups: Sequence[int] = (0, 1)) -> None:
        """Send half of the reports to each group; so each topic holds what its loss would lose."""
        period = plan.window_at(int(time.time() * 1000))
        batch = Batch(period, REPORTS // 2, None, {"v": np.arange(REPORTS // 2) % 4})
        for group in groups:
            topic = plan_names(plan, self.namespace).reports(group)
            body = encode_batch(plan, group, batch)
            self.sink.send(topic, uuid.uuid4().bytes, body, partition=0).wait(30)

    def state(self, role: str, plan: Plan) -> dict[str, Any]:
        body = self.service.page("/readyz", accept="application/json")[1]
        roles = json.loads(body)["roles"] if body else {}
        state: dict[str, Any] = roles.get(role, {}).get("plans", {}).get(plan_label(plan), {})
        return state

    def ready(self, plan: Plan) -> bool:
        roles = [self.state(role, plan) for role in ("tally", "publisher")]
        return all(role.get("well") and role.get("detail") == "ready" for role in roles)

    def metric(self, name: str, plan: Plan) -> float:
        label = f'plan="{plan_label(plan)}"'
        lines = self.service.page("/metrics")[1].splitlines()
        return sum(
            float(line.rsplit(" ", 1)[1])
            for line in lines
            if line.startswith(name + "{") and label in line
        )

    def counted(self, plan: Plan) -> float:
        return self.metric("calmstream_reports_accepted_total", plan)
