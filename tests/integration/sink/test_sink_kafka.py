"""Check ``calmstream sink`` as a process on a real broker: kills lose and double no row."""

from __future__ import annotations

import random
import secrets
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from calmstream.broker.kafka import connect
from calmstream.broker.names import TopicNames
from calmstream.cli import main
from calmstream.consumer.publish.build import build_set
from calmstream.consumer.publish.merge import MergedWindow
from calmstream.consumer.subscribe.assembler import Snapshot
from calmstream.consumer.subscribe.subscribe import subscribe
from calmstream.estimators.wire.snapshot import Kind
from tests.support.publisher import DAY_MS, count_of, published_plan
from tests.support.service.processes import Process, run, until
from tests.support.sink.targets import KINDS, expected_results, expected_sets, place

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]

WINDOWS = 2000
MOMENTS = ("", "target is open", "target is open", '"event": "stored"')  # logged before a kill


class WrittenTopic:
    """A snapshots topic on a real broker, to which a thread writes sets, some twice, some late."""

    def __init__(self, bootstrap: str, directory: Path) -> None:
        self.bootstrap = bootstrap
        self.plan = published_plan(groups=1, windows=WINDOWS)
        self.path = directory / "plan.json"
        self.path.write_bytes(self.plan.to_bytes())
        self.names = TopicNames.of(self.plan, f"sink-{secrets.token_hex(4)}")
        self.broker = connect(bootstrap)
        specs = [spec for spec in self.names.specs(DAY_MS) if spec.name == self.names.snapshots]
        self.broker.topics().create(specs)
        self.stop = threading.Event()
        self.writer = threading.Thread(target=self.write, args=(WINDOWS, 0.1))

    def end(self) -> None:
        self.stop.set()
        if self.writer.is_alive():
            self.writer.join(60)
            assert not self.writer.is_alive()

    def snapshots(self) -> list[Snapshot]:
        newest: dict[tuple[int, Kind], Snapshot] = {}
        space = self.names.namespace
        for one in subscribe(self.plan, self.bootstrap, follow=False, namespace=space):
            newest[one.window, one.kind] = one
            if one.kind is Kind.FINAL:
                newest.pop((one.window, Kind.EARLY), None)
        return list(newest.values())

    def words(self, to: str) -> list[str]:
        return [
            "sink", "--plan", str(self.path), "--bootstrap", self.bootstrap,
            "--namespace", self.names.namespace, "--to", to,
        ]  # fmt: skip

    def write(self, windows: int, pause: float) -> None:
        sink, dice = self.broker.sink(), random.Random(1)
        for window in range(windows):
            if self.stop.is_set():
                break
            early = [(Kind.EARLY, n) for n in dice.sample(range(5), 3)]
            for kind, n in [*early, (Kind.FINAL, 9), (Kind.TOTAL, 9), (Kind.CURRENT, 9)]:
                counts = count_of([(window + n) % 4] * (n + 1))
                built = build_set(self.plan, MergedWindow(window, kind, (n, n), (counts,)))
                written = [*built.tables(), built.closing()]
                for key, value in written * dice.choice((1, 1, 1, 2)):
                    sink.send(self.names.snapshots, key, value, partition=0).wait(30)
                self.stop.wait(pause)
        sink.close(10)


@pytest.fixture
def topic(kafka_bootstrap: str, tmp_path: Path) -> Iterator[WrittenTopic]:
    made = WrittenTopic(kafka_bootstrap, tmp_path)
    yield made
    made.end()
    made.broker.topics().delete([made.names.snapshots])
    made.broker.close()


def test_once_stores_the_topic_and_says_how_much(
    topic: WrittenTopic, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Only the snapshots topic exists, as after `retire --delete-counts`."""
    where = place("parquet", tmp_path, None)
    topic.write(3, 0.0)
    assert main([*topic.words(where.address), "--once"]) == 0
    fresh = topic.snapshots()
    assert len(fresh) == 9
    assert where.results() == expected_results(topic.plan, topic.names, fresh)
    (line,) = [x for x in capfd.readouterr().err.splitlines() if x.startswith("Parquet")]
    assert " 9 sets stored with 54 rows; " in line


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_killed_sinks_lose_and_double_nothing(
    kind: str, topic: WrittenTopic, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    needs = request.getfixturevalue("postgres_server") if kind == "postgresql" else None
    where, dice = place(kind, tmp_path, needs), random.Random(20261123)
    topic.writer.start()
    # Two at a time, as during the roll-out of a new version.
    for pair in range(2):
        sinks = [
            Process(
                tmp_path / f"sink-{pair}-{number}.log",
                *topic.words(where.address),
                settings=where.settings,
            )
            for number in range(2)
        ]
        for sink in sinks:
            moment = dice.choice(MOMENTS)
            until(f"{moment!r} is in the log", lambda m=moment, s=sink: m in s.log.read_text(), 120)
            time.sleep(dice.uniform(0.0, 0.4))
            assert sink.alive(), sink.tail()
            sink.signal(signal.SIGKILL)
            sink.wait(30)
    topic.end()
    done = run(*topic.words(where.address), "--once", settings=where.settings)
    assert done.returncode == 0, done.stderr
    fresh = topic.snapshots()
    assert len(fresh) > 6
    # Lists: a row that is there twice is a difference.
    assert where.results() == expected_results(topic.plan, topic.names, fresh)
    assert where.sets() == expected_sets(topic.plan, topic.names, fresh)
