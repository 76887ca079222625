"""Check the sinks of many plans in one target: who is concerned by a fault, coming and going."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from calmstream.common.errors import FatalError, InvalidInput, RecoverableError
from calmstream.common.settings import load
from calmstream.consumer.metrics.registry import plan_label
from calmstream.consumer.plans import served_plan
from calmstream.consumer.publish.build import build_set
from calmstream.consumer.publish.merge import MergedWindow
from calmstream.consumer.runtime.config import TallyConfig
from calmstream.consumer.sink import worker as module
from calmstream.consumer.sink.parquet_files import ParquetTarget
from calmstream.consumer.sink.stored import StoredSet
from calmstream.consumer.sink.target import Stored
from calmstream.consumer.subscribe.assembler import Snapshot
from calmstream.estimators.plan import Plan
from calmstream.estimators.wire.snapshot import Kind
from calmstream.service import Namespaces, Service
from tests.support.faulty_broker import FaultyBroker
from tests.support.publisher import DAY_MS, count_of, published_plan
from tests.support.service.processes import until
from tests.support.sink.targets import Place, Row, expected_results, place

ONE, TWO, THREE = (
    replace(published_plan(groups=1, windows=9), name=name) for name in ("one", "two", "three")
)
WHERE = Namespaces("sink-plans")
SETS = "calmstream_sink_sets_stored_total"
FAILURES = "calmstream_sink_failures_total"
QUARANTINED = "calmstream_sink_quarantined"


class Topics:
    """The snapshots topics of plans, with what was written to them."""

    def __init__(self, *plans: Plan) -> None:
        self.broker = FaultyBroker()
        self.written: dict[tuple[str, int, Kind], tuple[Plan, Snapshot]] = {}
        for plan in plans:
            self.create(plan)
        self._sink = self.broker.sink()

    def create(self, plan: Plan) -> None:
        self.broker.topics().create(WHERE.names(plan).specs(DAY_MS))

    def write(self, plan: Plan, window: int, kind: Kind = Kind.FINAL) -> None:
        built = build_set(plan, MergedWindow(window, kind, (4, 4), (count_of([1] * 7),)))
        for key, value in [*built.tables(), built.closing()]:
            self.send(plan, key, value)
        tables = {record.attributes: record for record in built.marginals}
        self.written[plan.digest, window, kind] = plan, Snapshot(built.manifest, tables)

    def send(self, plan: Plan, key: bytes, value: bytes) -> None:
        self._sink.send(WHERE.names(plan).snapshots, key, value, partition=0).wait(10)

    def rows(self, *plans: Plan) -> list[Row]:
        """Return the rows that a target of these plans should have."""
        rows: list[Row] = []
        for plan, snapshot in self.written.values():
            if plan in plans:
                rows += expected_results(plan, WHERE.names(plan), [snapshot])
        return sorted(rows)


class Target(ParquetTarget):
    """A real target that is away or refuses a plan if the test wants it."""

    away = False
    refused = ""

    def check_plan(self, plan: Plan) -> None:
        if plan.name == self.refused:
            raise InvalidInput("--to: cannot store a label")

    def store(self, sets: Sequence[StoredSet]) -> Stored:
        if self.away:
            raise RecoverableError("the target is away")
        return super().store(sets)


@dataclass
class Folder:
    """The plans that the role is asked to serve."""

    plans: Mapping[str, Plan]

    def show(self, *plans: Plan) -> None:
        self.plans = {plan.digest: plan for plan in plans}


class Running:
    """The role on a thread of its own."""

    def __init__(self, topics: Topics, target: Target, *plans: Plan) -> None:
        self.registry = CollectorRegistry()
        self.folder = Folder({})
        self.folder.show(*plans)
        many = Service(
            self.folder,  # type: ignore[arg-type]
            topics.broker,
            self.registry,
            WHERE,
        )
        self.role = many.sink(target, load(TallyConfig))
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        with suppress(FatalError):  # a plan that fails just when the role stops is named
            self.role.run(self.stop)

    def end(self) -> None:
        self.stop.set()
        self.thread.join(30)
        assert not self.thread.is_alive()

    def metric(self, name: str, plan: Plan) -> float | None:
        return self.registry.get_sample_value(name, {"plan": plan_label(plan)})

    def detail(self, plan: Plan) -> str:
        found = self.role.health.plans.get(plan_label(plan))
        return "" if found is None else found.detail


@pytest.fixture
def where(tmp_path: Path) -> Place:
    return place("parquet", tmp_path, None)


@pytest.fixture
def target(where: Place, monkeypatch: pytest.MonkeyPatch) -> Target:
    monkeypatch.setattr(served_plan, "FIRST_PAUSE", 0.2)
    monkeypatch.setattr(module, "_FIRST_PAUSE_SECONDS", 0.05)
    return Target(Path(where.address.partition(":")[2]))


@pytest.fixture
def run(target: Target) -> Iterator[Callable[..., Running]]:
    started: list[Running] = []

    def start(topics: Topics, *plans: Plan) -> Running:
        started.append(Running(topics, target, *plans))
        return started[-1]

    yield start
    for running in started:
        running.end()


def test_all_plans_are_stored_in_one_target_and_a_missing_topic_concerns_one(
    run: Callable[..., Running], where: Place
) -> None:
    topics = Topics(ONE, TWO)
    for window in range(4):
        topics.write(ONE, window)
        topics.write(TWO, window, Kind.EARLY)
    running = run(topics, ONE, TWO, THREE)
    until("two plans are stored", lambda: running.metric(SETS, TWO) == 4, 30)
    until("both of them", lambda: running.metric(SETS, ONE) == 4, 30)
    until("three is in quarantine", lambda: running.metric(QUARANTINED, THREE) == 1, 30)
    remedy = "does not exist; create it: calmstream topics"
    until("the health says why", lambda: remedy in running.detail(THREE), 30)
    assert running.metric("calmstream_sink_faults_total", ONE) == 0
    assert where.results() == topics.rows(ONE, TWO)
    topics.create(THREE)
    topics.write(THREE, 0)
    topics.write(ONE, 5)
    until("three is stored", lambda: running.metric(SETS, THREE) == 1, 30)
    until("one goes on", lambda: running.metric(SETS, ONE) == 5, 30)
    until("three is out of quarantine", lambda: running.metric(QUARANTINED, THREE) == 0, 30)
    assert where.results() == topics.rows(ONE, TWO, THREE)
