"""Kills real sinks at random moments while sets are written; compares rows with a fresh read.

The sinks follow one plan or a folder of plans.
"""

from __future__ import annotations

import random
import secrets
import signal
import threading
import time
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from calmstream.broker.kafka import connect
from calmstream.consumer.subscribe.assembler import Snapshot
from calmstream.consumer.subscribe.subscribe import plan_names, subscribe
from calmstream.estimators.wire.snapshot import Kind
from tests.support.publisher import DAY_MS
from tests.support.service.processes import Process, run, until
from tests.support.sink.planted import records, wide_plan
from tests.support.sink.targets import Place, Row, expected_results, expected_sets

WINDOWS = 2000
PAUSE_SECONDS = 0.1
MOMENTS = ("", "target is open", "target is open", '"event": "stored"')
"""What a sink has logged shortly before it is killed."""


class WrittenTopic:
    """A snapshots topic on a real broker, and a thread that writes sets to it.

    Each window gets early sets, of which some are of a revision that was superseded, then a final
    and a total. Some sets are written twice, as two publishers do.
    """

    def __init__(
        self,
        bootstrap: str,
        directory: Path,
        seed: int,
        *,
        name: str = "planted",
        namespace: str = "",
    ) -> None:
        self.bootstrap = bootstrap
        self.plan = wide_plan(16, 24, windows=WINDOWS, name=name)
        self.path = directory / f"{name}.json"
        self.path.write_bytes(self.plan.to_bytes())
        self.names = plan_names(self.plan, namespace or new_namespace())
        self._broker = connect(bootstrap)
        specs = [spec for spec in self.names.specs(DAY_MS) if spec.name == self.names.snapshots]
        self._broker.topics().create(specs)
        self._dice = random.Random(seed)
        self._stop = threading.Event()
        self._writer = threading.Thread(target=self.write, args=(WINDOWS, PAUSE_SECONDS))

    def start(self) -> None:
        self._writer.start()

    def end(self) -> None:
        """Stop writing; every set that was begun is completed."""
        self._stop.set()
        self._writer.join(60)
        assert not self._writer.is_alive()

    def close(self) -> None:
        self._stop.set()
        if self._writer.is_alive():
            self._writer.join(60)
        self._broker.topics().delete([self.names.snapshots])
        self._broker.close()

    def snapshots(self) -> list[Snapshot]:
        """Return the newest set of each window and kind, by a fresh read."""
        newest: dict[tuple[int, Kind], Snapshot] = {}
        for one in subscribe(
            self.plan, self.bootstrap, follow=False, namespace=self.names.namespace
        ):
            newest[one.window, one.kind] = one
            if one.kind is Kind.FINAL:
                newest.pop((one.window, Kind.EARLY), None)
        return list(newest.values())

    def expected(self) -> tuple[list[Row], list[Row]]:
        """Return the rows of results and of sets that must be stored, in order."""
        fresh = self.snapshots()
        return (
            expected_results(self.plan, self.names, fresh),
            expected_sets(self.plan, self.names, fresh),
        )

    def words(self, to: str) -> list[str]:
        """Return the command of a sink."""
        return [
            "sink", "--plan", str(self.path), "--bootstrap", self.bootstrap,
            "--namespace", self.names.namespace, "--to", to,
        ]  # fmt: skip

    def write(self, windows: int, pause: float) -> None:
        """Write the sets of windows, with a pause after each set."""
        sink = self._broker.sink()
        for window in range(windows):
            if self._stop.is_set():
                break
            revisions = [(Kind.EARLY, r) for r in self._dice.sample(range(5), 3)]
            revisions += [(Kind.FINAL, 9), (Kind.TOTAL, 9)]
            for kind, revision in revisions:
                # The same numbers whenever a set is written again.
                dice = random.Random(window * 100 + revision)
                written = records(self.plan, window, kind, revision, dice)
                for key, value in written * self._dice.choice((1, 1, 1, 2)):
                    sink.send(self.names.snapshots, key, value, partition=0).wait(30)
                self._stop.wait(pause)
        sink.close(10)


class WrittenFolder:
    """A folder of plans with their written topics; see :class:`WrittenTopic`."""

    def __init__(self, bootstrap: str, directory: Path, seed: int, plans: int = 3) -> None:
        self._bootstrap = bootstrap
        self._namespace = new_namespace()
        self._folder = directory / "plans"
        self._folder.mkdir()
        self.topics = [
            WrittenTopic(
                bootstrap,
                self._folder,
                seed + number,
                name=f"planted-{number}",
                namespace=self._namespace,
            )
            for number in range(plans)
        ]

    def start(self) -> None:
        for topic in self.topics:
            topic.start()

    def end(self) -> None:
        for topic in self.topics:
            topic.end()

    def close(self) -> None:
        for topic in self.topics:
            topic.close()

    def expected(self) -> tuple[list[Row], list[Row]]:
        """Return the rows of results and of sets that must be stored, in order."""
        results, sets = zip(*(topic.expected() for topic in self.topics), strict=True)
        return sorted(chain(*results)), sorted(chain(*sets))

    def words(self, to: str) -> list[str]:
        """Return the command of a sink."""
        return [
            "sink", "--plans", str(self._folder), "--allow-unsigned",
            "--bootstrap", self._bootstrap, "--namespace", self._namespace, "--to", to,
        ]  # fmt: skip


def new_namespace() -> str:
    """Return a namespace that no other test uses."""
    return f"sink-{secrets.token_hex(4)}"


@dataclass
class Outcome:
    """What became of a target whose sinks were killed.

    Attributes:
        kills: number of processes that were killed.
        sets, rows: number of sets and rows at the end.
        after_kill: number of rows after each kill.
        differences: rows that differ from a fresh read, at most ten.
    """

    kills: int = 0
    sets: int = 0
    rows: int = 0
    after_kill: list[int] = field(default_factory=list)
    differences: list[object] = field(default_factory=list)


def kill_sinks(
    topic: WrittenTopic | WrittenFolder, where: Place, directory: Path, kills: int, seed: int
) -> Outcome:
    """Kill sinks while topics are written; then let one finish, and compare."""
    dice, outcome = random.Random(seed), Outcome()
    topic.start()
    while outcome.kills < kills:
        # Sometimes two at a time, as during the roll-out of a new version.
        count = min(dice.choice((1, 1, 2)), kills - outcome.kills)
        logs = [directory / f"sink-{outcome.kills + number}.log" for number in range(count)]
        sinks = [start(topic, where, log) for log in logs]
        for sink in dice.sample(sinks, count):
            wait_for(sink, dice.choice(MOMENTS))
            time.sleep(dice.uniform(0.0, 0.4))
            assert sink.alive(), sink.tail()
            sink.signal(signal.SIGKILL)
            sink.child.wait(30)
            outcome.kills += 1
        outcome.after_kill.append(len(where.results()) if has_begun(where) else 0)
    topic.end()
    done = run(*topic.words(where.address), "--once", settings=where.settings)
    assert done.returncode == 0, done.stderr
    for found, expected in zip((where.results(), where.sets()), topic.expected(), strict=True):
        # Of lists, not of sets: a row that is there twice is a difference.
        if found != expected:
            outcome.differences += sorted(set(found) ^ set(expected))[:10] or ["repeated rows"]
    outcome.sets, outcome.rows = len(where.sets()), len(where.results())
    return outcome


def wait_for(sink: Process, text: str) -> None:
    """Wait until a text is in the log of a sink; the log of a process that begins is empty."""

    def is_there() -> bool:
        assert sink.alive(), sink.tail()
        return text in sink.log.read_text()

    until(f"{text!r} is in the log", is_there, 120)


def start(topic: WrittenTopic | WrittenFolder, where: Place, log: Path) -> Process:
    """Start a sink that follows what is written."""
    return Process(log, *topic.words(where.address), settings=where.settings)


def has_begun(where: Place) -> bool:
    """Return whether the tables exist: a first kill may come before they were made."""
    try:
        where.sets()
    except Exception:  # noqa: BLE001 - each kind has errors of its own
        return False
    return True
