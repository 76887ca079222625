"""Check the subscriber: complete sets only, never an older one, and one line for each refusal."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import orjson
import pytest

from calmstream.common.errors import (
    FatalError,
    InvalidInput,
    MissingTopic,
    RecoverableError,
)
from calmstream.consumer.publish.build import SnapshotSet, build_set
from calmstream.consumer.publish.merge import MergedWindow
from calmstream.consumer.subscribe.assembler import SnapshotAssembler
from calmstream.consumer.subscribe.subscribe import subscribe
from calmstream.estimators.plan import Plan
from calmstream.estimators.wire.snapshot import Kind, Manifest, MarginalRecord
from tests.support.publisher import Bench, count_of, published_plan


def a_set(
    plan: Plan, window: int, kind: Kind, revision: tuple[int, ...], reports: int = 100
) -> SnapshotSet:
    counts = tuple(count_of([g % 4] * reports) for g in range(len(plan.groups)))
    return build_set(plan, MergedWindow(window, kind, revision, counts))


def records(built: SnapshotSet) -> list[MarginalRecord | Manifest]:
    return [*built.marginals, built.manifest]


@pytest.fixture
def plan() -> Plan:
    return published_plan(groups=1, windows=30)


def test_a_tombstone_takes_a_record_out_of_an_incomplete_set(plan: Plan) -> None:
    one, two, manifest = records(a_set(plan, 0, Kind.EARLY, (1, 1)))
    assembler = SnapshotAssembler(plan)
    assembler.add(one)
    assert assembler.read(one.key, None) is None
    assert [assembler.add(r) for r in (two, manifest)] == [None, None]
    assert assembler.add(one) is not None


def test_an_empty_windows_manifest_is_a_whole_set(plan: Plan) -> None:
    shown = SnapshotAssembler(plan).add(a_set(plan, 0, Kind.FINAL, (1, 1), reports=0).manifest)
    assert shown is not None
    assert shown.marginals == {}
    with pytest.raises(InvalidInput, match="received no reports"):
        shown.marginal("a0")


def test_tables_come_as_arrays_shaped_by_labels_in_the_order_asked_for(plan: Plan) -> None:
    assembler = SnapshotAssembler(plan)
    counts = (count_of([0] * 100 + [1] * 900),)
    built = build_set(plan, MergedWindow(0, Kind.FINAL, (1, 1), counts))
    shown = next(snapshot for r in records(built) if (snapshot := assembler.add(r)))
    ab, ba = shown.marginal("a0", "a1"), shown.marginal("a1", "a0")
    assert ab.table.shape == ab.stderr.shape == (2, 2)
    assert np.array_equal(ab.table, ba.table.T)
    assert np.array_equal(ab.stderr, ba.stderr.T)
    assert ab.table[0, 1] > 0.8
    assert ab.labels == (("0", "1"), ("0", "1"))
    with pytest.raises(
        InvalidInput, match=r"no marginal of a0,a2 in window 0; there are a0; a0,a1"
    ):
        shown.marginal("a0", "a2")


# Over a broker


@pytest.fixture
def bench(plan: Plan) -> Bench:
    return Bench(plan)


def write(bench: Bench, window: int, kind: Kind, revision: tuple[int, ...]) -> None:
    built = a_set(bench.plan, window, kind, revision)
    for key, value in [*built.tables(), built.closing()]:
        bench.sink.send(bench.names.snapshots, key, value).wait(5)


def seen(bench: Bench, **options: object) -> list[tuple[int, Kind, tuple[int, ...]]]:
    snapshots = subscribe(
        bench.plan, bench.broker, namespace="test", follow=False, poll_seconds=0, **options
    )
    return [(s.window, s.kind, s.revision) for s in snapshots]


def _own_lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return what the subscriber logs; a Kafka client logs that a busy broker answers late."""
    return [entry.getMessage() for entry in caplog.records if entry.name.startswith("calmstream")]


def test_sets_of_another_plan_are_skipped_and_logged_once(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    own = bench.plan
    for plan, window in ((own, 0), (replace(own, purpose="another"), 1), (own, 2)):
        bench.plan = plan
        for kind in (Kind.FINAL, Kind.TOTAL):
            write(bench, window, kind, (2, 2))
    bench.plan = own
    assert {window for window, _, _ in seen(bench)} == {0, 2}
    assert ["another plan" in line for line in _own_lines(caplog)] == [True]
    assert [window for window, _, _ in seen(bench, from_window="latest")] == [2, 2]


def test_without_following_it_ends_at_the_end(bench: Bench) -> None:
    assert seen(bench) == []
    write(bench, 0, Kind.EARLY, (1, 1))
    write(bench, 0, Kind.FINAL, (2, 2))
    write(bench, 0, Kind.EARLY, (9, 9))
    write(bench, 0, Kind.TOTAL, (2, 2))
    write(bench, 1, Kind.EARLY, (3, 3))
    assert seen(bench) == [
        (0, Kind.EARLY, (1, 1)),
        (0, Kind.FINAL, (2, 2)),
        (0, Kind.TOTAL, (2, 2)),
        (1, Kind.EARLY, (3, 3)),
    ]
    assert seen(bench, kinds=["early"], from_window=1) == [(1, Kind.EARLY, (3, 3))]
    assert seen(bench, kinds=[Kind.TOTAL]) == [(0, Kind.TOTAL, (2, 2))]


def test_following_waits_for_more_and_ends_on_request(bench: Bench) -> None:
    stop = threading.Event()
    write(bench, 0, Kind.FINAL, (2, 2))
    following = subscribe(bench.plan, bench.broker, namespace="test", stop=stop, poll_seconds=0.05)
    assert next(following).window == 0
    timer = threading.Timer(0.2, write, (bench, 1, Kind.FINAL, (4, 4)))
    timer.start()
    assert next(following).window == 1
    timer.join(60)
    stop.set()
    assert next(following, None) is None


def test_one_that_begins_late_stops_and_resumes_sees_every_final_once(bench: Bench) -> None:
    delivered: list[int] = []

    def follow(times: int) -> None:
        """Take finals from where the last run ended, then stop, as a process that is killed."""
        snapshots = subscribe(
            bench.plan,
            bench.broker,
            namespace="test",
            kinds=[Kind.FINAL],
            from_window=delivered[-1] + 1 if delivered else 0,
            poll_seconds=0.01,
        )
        delivered.extend(next(snapshots).window for _ in range(times))
        snapshots.close()  # type: ignore[attr-defined]

    def publish(*windows: int) -> None:
        for window in windows:
            for kind in Kind:
                write(bench, window, kind, (window + 2, 2))

    publish(0, 1, 2)
    follow(2)
    publish(3, 4, 1)
    bench.broker.compact(bench.names.snapshots, active=0)
    follow(1)
    follow(2)
    publish(5, 2)
    follow(1)
    assert delivered == [0, 1, 2, 3, 4, 5]


def test_a_newer_snapshot_is_one_clear_line(bench: Bench) -> None:
    built = a_set(bench.plan, 0, Kind.FINAL, (2, 2))
    key, value = built.closing()
    newer = orjson.dumps(orjson.loads(value) | {"v": "2.0"})
    bench.sink.send(bench.names.snapshots, key, newer).wait(5)
    with pytest.raises(InvalidInput, match=r"version 2\.0, newer than 1\.3: run"):
        seen(bench)


def test_fields_that_no_format_names_are_ignored(bench: Bench) -> None:
    built = a_set(bench.plan, 0, Kind.FINAL, (2, 2), reports=0)
    key, value = built.closing()
    more = orjson.dumps(orjson.loads(value) | {"weather": "fair"})
    bench.sink.send(bench.names.snapshots, key, more).wait(5)
    assert seen(bench) == [(0, Kind.FINAL, (2, 2))]


def test_the_error_about_a_missing_topic_says_how_to_create_it(plan: Plan) -> None:
    bench = Bench(plan)
    bench.topics.delete([bench.names.snapshots])
    with pytest.raises(MissingTopic, match=r"\.snapshots does not exist; create it: calmstream"):
        seen(bench)


def test_a_broker_that_is_away_is_asked_again_within_the_budget(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(bench, 0, Kind.FINAL, (2, 2))
    broker, failures = Flaky(bench, 1), []
    snapshots = subscribe(bench.plan, broker, namespace="test", follow=False)
    assert [s.window for s in snapshots] == [0]
    broker = Flaky(bench, 10_000)
    with pytest.raises(RecoverableError, match="away"):
        failures.extend(
            subscribe(bench.plan, broker, namespace="test", follow=False, retry_seconds=0)
        )
    assert failures == []


class Flaky:
    """The bench's broker, whose reader fails the first polls."""

    def __init__(self, bench: Bench, failures: int) -> None:
        self._broker = bench.broker
        self._failures = failures

    def __getattr__(self, name: str) -> object:
        return getattr(self._broker, name)

    def reader(self) -> object:
        reader = self._broker.reader()
        poll = reader.poll

        def failing(timeout: float, max_records: int = 500) -> object:
            self._failures -= 1
            if self._failures >= 0:
                raise RecoverableError("the broker is away")
            return poll(timeout, max_records)

        reader.poll = failing  # type: ignore[method-assign]
        return reader


def test_closing_the_iterator_closes_its_reader(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(bench, 0, Kind.FINAL, (2, 2))
    reader = bench.broker.reader()
    monkeypatch.setattr(bench.broker, "reader", lambda: reader)
    snapshots: Iterator[object] = subscribe(bench.plan, bench.broker, namespace="test")
    next(snapshots)
    snapshots.close()  # type: ignore[attr-defined]
    with pytest.raises(FatalError, match="closed"):
        reader.poll(0)
