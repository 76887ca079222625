"""Check a sink: it stores all complete sets, waits for a failing target, and stops soon."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from calmstream.broker.transport import Sink
from calmstream.common.clock import SystemClock
from calmstream.common.errors import FatalError, MissingTopic, RecoverableError
from calmstream.consumer.metrics.registry import plan_metrics
from calmstream.consumer.publish.build import build_set
from calmstream.consumer.publish.merge import MergedWindow
from calmstream.consumer.runtime.config import WorkerConfig
from calmstream.consumer.runtime.service import Alone
from calmstream.consumer.sink import worker as module
from calmstream.consumer.sink.metrics import (
    FAILURES,
    FINALS,
    SETS,
    SINK_METRICS,
    WAITING,
)
from calmstream.consumer.sink.parquet_files import ParquetTarget
from calmstream.consumer.sink.postgres_schema import LOCK
from calmstream.consumer.sink.target import Stored, Target
from calmstream.consumer.sink.worker import SinkContext, SinkWorker, WithTarget, store_once
from calmstream.consumer.subscribe.assembler import Snapshot
from calmstream.estimators.wire.snapshot import Kind, encode
from tests.support.faulty_broker import FaultyBroker
from tests.support.publisher import DAY_MS, count_of, names_of, published_plan, snapshot_of
from tests.support.service.processes import until
from tests.support.sink.postgres import PostgresServer
from tests.support.sink.targets import Place, expected_results, place, postgres_place

PLAN = published_plan(groups=1, windows=9)
NAMES = names_of(PLAN)


class Topic:
    def __init__(self) -> None:
        self.broker = FaultyBroker()
        self.broker.topics().create(NAMES.specs(DAY_MS))
        self._sink: Sink = self.broker.sink()

    def write(self, window: int, kind: Kind, revision: tuple[int, int], **changes: int) -> Snapshot:
        """Write a set; return it. ``leave_out`` is the number of last records not to write."""
        built = build_set(PLAN, MergedWindow(window, kind, revision, (count_of([1] * 7),)))
        records = [*built.tables(), built.closing()]
        for key, value in records[: len(records) - changes.get("leave_out", 0)]:
            self.send(key, value)
        return snapshot_of(PLAN, window, kind, revision, count_of([1] * 7))

    def send(self, key: bytes, value: bytes) -> None:
        self._sink.send(NAMES.snapshots, key, value, partition=0).wait(10)


class Flaky(ParquetTarget):
    """A real target whose calls fail while ``failing`` is set."""

    failing = False
    calls = 0

    def store(self, namespace: str, sets: Sequence[Snapshot]) -> Stored:
        self.calls += 1
        if self.failing:
            raise RecoverableError("the target is away")
        return super().store(namespace, sets)


class Running:
    def __init__(self, topic: Topic, target: Target, retry_seconds: float = 60.0) -> None:
        self.registry, self._target = CollectorRegistry(), target
        metrics = plan_metrics(self.registry, PLAN, NAMES, SINK_METRICS)
        config = WorkerConfig(retry_seconds=retry_seconds)
        context = SinkContext("sink", PLAN, NAMES, SystemClock(), config, metrics)
        self.worker = SinkWorker(context, topic.broker, target)
        self.stop = threading.Event()
        self.failure: BaseException | None = None
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        try:
            WithTarget(Alone(self.worker), self._target).run(self.stop)
        except BaseException as error:  # noqa: BLE001 - asserted on by the tests
            self.failure = error

    def end(self, *, stop: bool = True) -> BaseException | None:
        if stop:
            self.stop.set()
        self.thread.join(60)
        assert not self.thread.is_alive()
        return self.failure

    def metric(self, name: str) -> float:
        labels = {"plan": f"{PLAN.name}-{PLAN.digest[:32]}"}
        found = self.registry.get_sample_value(name, labels)
        assert found is not None
        return found


@pytest.fixture
def where(tmp_path: Path) -> Place:
    return place("parquet", tmp_path, None)


@pytest.fixture
def target(where: Place) -> Flaky:
    return Flaky(Path(where.address.partition(":")[2]))


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FIRST_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(module, "_LONGEST_PAUSE_SECONDS", 0.05)


def stored(where: Place, *sets: Snapshot) -> Callable[[], bool]:
    expected = expected_results(PLAN, NAMES, list(sets))
    return lambda: where.results() == expected


def once(topic: Topic, target: ParquetTarget) -> tuple[int, Stored]:
    target.open()
    return store_once(PLAN, topic.broker, NAMES, target)


def test_once_stores_what_is_complete_and_nothing_else(where: Place, target: Flaky) -> None:
    topic = Topic()
    first = topic.write(0, Kind.FINAL, (4, 4))
    topic.write(1, Kind.FINAL, (5, 5), leave_out=1)  # its manifest is missing
    topic.write(2, Kind.EARLY, (5, 5))
    second = topic.write(2, Kind.EARLY, (6, 5))
    assert once(topic, target) == (3, Stored(2, 12))
    assert stored(where, first, second)()
    assert once(topic, target) == (3, Stored(0, 0))


@pytest.mark.parametrize(("limit", "most"), [("BATCH_ROWS", 12), ("BATCH_SETS", 2)])
def test_once_stores_many_sets_in_parts(
    where: Place, target: Flaky, monkeypatch: pytest.MonkeyPatch, limit: str, most: int
) -> None:
    topic = Topic()
    sets = [topic.write(window, Kind.FINAL, (4, 4)) for window in range(5)]
    monkeypatch.setattr(module, limit, most)
    assert once(topic, target) == (5, Stored(5, 30))
    assert target.calls == 3
    assert stored(where, *sets)()


def test_records_of_others_are_skipped(where: Place, target: Flaky) -> None:
    topic = Topic()
    good = topic.write(0, Kind.FINAL, (4, 4))
    built = build_set(PLAN, MergedWindow(1, Kind.FINAL, (5, 5), (count_of([1] * 7),)))
    for key, value in [*built.tables(), built.closing()]:
        # Complete, but of labels that the plan does not have.
        topic.send(key, value.replace(b'"labels":[["0","1"]', b'"labels":[["0","\\u0000"]'))
    topic.send(b"1/total/manifest", built.closing()[1].replace(b'"final"', b'"total"'))
    topic.send(b"nonsense", b"{}")
    other = published_plan(groups=1, windows=8)
    foreign = build_set(other, MergedWindow(3, Kind.FINAL, (5, 5), (count_of([]),)))
    topic.send(foreign.manifest.key, encode(foreign.manifest))
    assert once(topic, target) == (1, Stored(1, 6))
    assert stored(where, good)()
    assert len(where.sets()) == 1


def test_it_follows_and_goes_on_after_a_restart(where: Place, target: Flaky) -> None:
    topic = Topic()
    sets = [topic.write(0, Kind.EARLY, (3, 3))]
    running = Running(topic, target)
    until("the early set is stored", lambda: running.metric(SETS.name) == 1, 60)
    sets = [topic.write(0, Kind.FINAL, (4, 4)), topic.write(0, Kind.TOTAL, (4, 4))]
    until("final and total are stored", lambda: running.metric(SETS.name) == 3, 60)
    assert running.end() is None
    assert stored(where, *sets)()
    sets.append(topic.write(1, Kind.FINAL, (8, 8)))
    again = Running(topic, target)
    until("the next final is stored", lambda: again.metric(SETS.name) == 1, 60)
    until("both finals are counted", lambda: again.metric(FINALS.name) == 2, 60)
    assert again.end() is None
    assert stored(where, *sets)()


def test_a_target_that_goes_away_is_waited_for(where: Place, target: Flaky, quick: None) -> None:
    topic = Topic()
    running = Running(topic, target, retry_seconds=0.1)
    until("the target is open", lambda: running.worker.health.readiness().well, 60)
    target.failing = True
    sets = [topic.write(0, Kind.FINAL, (4, 4))]
    until("attempts were repeated", lambda: running.metric(FAILURES.name) > 5, 60)
    assert running.metric(WAITING.name) == 1
    assert running.metric(FINALS.name) == 0
    assert running.worker.health.readiness().detail == "the target does not answer"
    assert running.worker.health.live().well
    sets.append(topic.write(1, Kind.FINAL, (5, 5)))
    target.failing = False
    until("both sets are stored", lambda: running.metric(SETS.name) == 2, 60)
    until("it is ready", lambda: running.worker.health.readiness().well, 60)
    assert running.metric(WAITING.name) == 0
    assert running.end() is None
    assert stored(where, *sets)()


def test_a_target_that_does_not_answer_at_the_start_is_an_error(
    target: Flaky, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away() -> None:
        raise RecoverableError("the target is away")

    monkeypatch.setattr(target, "open", away)
    failure = Running(Topic(), target).end(stop=False)
    assert isinstance(failure, FatalError)
    assert str(failure) == "the target is away"


def test_a_missing_topic_is_an_error(target: Flaky) -> None:
    topic = Topic()
    topic.broker.topics().delete([NAMES.snapshots])
    assert isinstance(Running(topic, target).end(stop=False), MissingTopic)
    with pytest.raises(MissingTopic):
        once(topic, target)


def test_a_database_that_does_not_answer_does_not_hold_up_the_end(
    postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STOP_SECONDS", 0.1)
    topic, database = Topic(), postgres_server.database()
    where = postgres_place(postgres_server, database)
    running = Running(topic, where.target())
    until("the target is open", lambda: running.worker.health.readiness().well, 60)
    with postgres_server.connect(database) as other:
        other.execute("SELECT pg_advisory_lock(%s)", (LOCK,))
        written = topic.write(0, Kind.FINAL, (4, 4))
        waiting = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        until("a call waits", lambda: other.execute(waiting).fetchone() is not None, 60)
        assert running.end() is None
        assert running.metric(WAITING.name) == 1
    again = Running(topic, where.target())
    until("the set is stored", lambda: again.metric(SETS.name) == 1, 60)
    assert again.end() is None
    assert stored(where, written)()
