"""Whatever lies on a topic, every reader yields it or skips it, and goes on."""

from __future__ import annotations

from collections import Counter

import pytest

from calmstream.common.clock import SystemClock
from calmstream.consumer.read.history import History
from calmstream.consumer.runtime.read_topics import PatientReader
from calmstream.consumer.subscribe.snapshot_topic import SnapshotTopic
from calmstream.consumer.subscribe.subscribe import subscribe
from calmstream.consumer.tally.restore import newest_states
from calmstream.estimators.wire.snapshot import Kind
from tests.support.attacks.typed_mutants import cases, hostile_records, mutants, verdict
from tests.support.publisher import Bench, work
from tests.support.serving import filled, serving_bench, wait_for

CASES = cases()


@pytest.mark.parametrize("name", CASES)
def test_a_field_of_another_type_is_read_or_foreign_and_the_same_twice(name: str) -> None:
    case = CASES[name]
    assert verdict(case, case.encode(case.body)) == "read"
    found: Counter[str] = Counter()
    for raw in mutants(case):
        one = verdict(case, raw)
        assert verdict(case, raw) == one
        found[one] += 1
    assert found.keys() <= {"read", "foreign", "newer"}
    assert found["foreign"] > found["read"] or name in ("level", "release", "claim")


def plant(bench: Bench) -> None:
    for topic, key, value in hostile_records(bench.plan, bench.names):
        bench.sink.send(topic, key, value, partition=0).wait(5)


@pytest.mark.parametrize("early", [True, False])
def test_no_role_stops_at_what_somebody_else_wrote(early: bool) -> None:
    """The records lie before or after the results."""
    bench = Bench(filled(windows=0).plan)
    if early:
        plant(bench)
    for log in bench.logs:
        log.report(0, 0, 1, 2, 3).close(0)
    bench.put_all()
    if not early:
        plant(bench)
    publication = bench.publication()
    work(publication)
    assert publication.follower.foreign.count == len(hostile_records(bench.plan, bench.names))
    expected = [(0, Kind.FINAL), (0, Kind.TOTAL)]
    sets = subscribe(bench.plan, bench.broker, namespace="test", follow=False)
    assert [(one.window, one.kind) for one in sets] == expected
    with History(bench.plan, bench.broker, namespace="test") as history:
        assert history.newest() == 0
        assert history.ask(["a0"]).reports > 0
    topics, reader = bench.broker.topics(), bench.broker.reader()
    topic = SnapshotTopic(bench.plan, bench.broker, bench.names, SystemClock(), print)
    topic.start()
    followed = list[tuple[int, Kind]]()
    while not topic.at_end():
        followed += [(one.window, one.kind) for one in topic.sets(0.1) or ()]
    assert followed == expected
    inputs = bench.names.inputs
    reading = PatientReader(reader, topics, SystemClock())
    states = newest_states(bench.plan, bench.names, inputs, reading)
    assert states[inputs[0]].open == {}


def test_a_reader_that_fails_makes_serve_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = filled(windows=1)
    with serving_bench(bench) as live:
        monkeypatch.setattr(live.service, "_check_end", lambda _: 1 / 0)
        wait_for(lambda: not live.server.health.readiness().well)
        assert "ZeroDivisionError" in live.server.health.readiness().detail
