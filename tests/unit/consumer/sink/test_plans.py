"""Check the sinks of many plans in one target: a fault of one plan concerns no other."""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from calmstream.broker.names import TopicNames
from calmstream.common.settings import load
from calmstream.consumer.metrics.registry import plan_label
from calmstream.consumer.plans import served_plan
from calmstream.consumer.publish.build import build_set
from calmstream.consumer.publish.merge import MergedWindow
from calmstream.consumer.runtime.config import TallyConfig
from calmstream.estimators.plan import Plan
from calmstream.estimators.wire.snapshot import Kind
from calmstream.service import Service
from tests.support.faulty_broker import FaultyBroker
from tests.support.publisher import DAY_MS, count_of, published_plan, snapshot_of
from tests.support.service.processes import until
from tests.support.sink.targets import Row, expected_results, place

ONE, TWO, THREE = (
    published_plan(groups=1, windows=9, name=name) for name in ("one", "two", "three")
)
NAMES = partial(TopicNames.of, namespace="sink-plans")
SETS = "calmstream_sink_sets_stored_total"
QUARANTINED = "calmstream_sink_quarantined"


def test_all_plans_are_stored_in_one_target_and_a_missing_topic_concerns_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served_plan, "FIRST_PAUSE", 0.2)
    where, broker, registry = place("parquet", tmp_path, None), FaultyBroker(), CollectorRegistry()
    topics, sink, rows = broker.topics(), broker.sink(), list[Row]()

    def write(plan: Plan, window: int, kind: Kind = Kind.FINAL) -> None:
        built = build_set(plan, MergedWindow(window, kind, (4, 4), (count_of([1] * 7),)))
        for key, value in [*built.tables(), built.closing()]:
            sink.send(NAMES(plan).snapshots, key, value, partition=0).wait(10)
        snapshot = snapshot_of(plan, window, kind, (4, 4), count_of([1] * 7))
        rows.extend(expected_results(plan, NAMES(plan), [snapshot]))

    def metric(name: str, plan: Plan) -> float | None:
        return registry.get_sample_value(name, {"plan": plan_label(plan)})

    for plan in (ONE, TWO):
        topics.create(NAMES(plan).specs(DAY_MS))
    for window in range(4):
        write(ONE, window)
        write(TWO, window, Kind.EARLY)
    folder: Any = SimpleNamespace(plans={plan.digest: plan for plan in (ONE, TWO, THREE)})
    service = Service(folder, broker, registry, namespace="sink-plans")
    role = service.sink(where.target(), load(TallyConfig))
    stop = threading.Event()
    thread = threading.Thread(target=role.run, args=(stop,))
    thread.start()
    try:
        until("two plans are stored", lambda: metric(SETS, TWO) == 4, 30)
        until("both of them", lambda: metric(SETS, ONE) == 4, 30)
        until("three is in quarantine", lambda: metric(QUARANTINED, THREE) == 1, 30)
        remedy = "does not exist; create it: calmstream topics"
        of_three = plan_label(THREE)
        until("the health says why", lambda: remedy in role.health.troubles.get(of_three, ""), 30)
        assert metric("calmstream_sink_faults_total", ONE) == 0
        assert where.results() == sorted(rows)
        topics.create(NAMES(THREE).specs(DAY_MS))
        write(THREE, 0)
        write(ONE, 5)
        until("three is stored", lambda: metric(SETS, THREE) == 1, 30)
        until("one goes on", lambda: metric(SETS, ONE) == 5, 30)
        until("three is out of quarantine", lambda: metric(QUARANTINED, THREE) == 0, 30)
        assert where.results() == sorted(rows)
    finally:
        stop.set()
        thread.join(30)
        assert not thread.is_alive()
