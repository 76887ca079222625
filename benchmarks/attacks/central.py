"""Attacks on the central model: by one user, by a sender of invented users, by an operator."""

from __future__ import annotations

import resource
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import orjson
from prometheus_client import generate_latest

from benchmarks.attacks.attack import Attack, Verdict
from calmstream.consumer.central.aggregator import Aggregator
from calmstream.estimators.central.plan import CentralPlan
from calmstream.estimators.central.release_reading import CentralRelease
from calmstream.producer.central.submit import submit
from tests.support.central import CentralBench

START = 1_700_000_000  # start of the plan in Unix seconds; the clock is manual, so any time will do

USERS = 16_384  # users of the one batch in which a single record is bad

MADE_UP, COLUMNS, VALUES = 60_000, 20, 450
"""The attack on memory: number of invented users, of columns of a record, of values of a column."""

MAX_MEMORY = 8 << 30  # bytes of address space that the attack on memory may use

MEMORY_OF_A_BATCH = 64 << 20
"""Bytes by which the aggregator's memory may grow for one batch of less than a megabyte."""


class Bench(CentralBench):
    """An in-process broker and aggregators with one manual clock."""

    def __init__(self, path: Path, columns: Sequence[str], levels: int) -> None:
        plan = CentralPlan(
            name="attack",
            purpose="an attack",
            owner="benchmarks",
            columns=tuple(columns),
            epsilon="8",
            delta="1e-6",
            levels=levels,
            start=START,
            window=60,
            releases=1,
        )
        super().__init__(path, plan)

    def work(self, aggregator: Aggregator, turns: int = 12) -> None:
        self.clock.advance(60)
        self.turns(aggregator, turns)

    def send(self, raw: bytes) -> None:
        self.broker.sink().send(self.names.raw, bytes(16), raw, partition=0).wait(5)

    def raw(self, users: Sequence[object], columns: Sequence[Sequence[object]]) -> bytes:
        """Encode a batch of records without the checks of an honest sender."""
        named = dict(zip(self.plan.columns, columns, strict=True))
        given = {"v": "central-1.0", "plan": self.plan.digest, "n": len(users)}
        return orjson.dumps(given | {"users": users, "columns": named})


def _nurses(release: CentralRelease) -> int:
    for table in release.levels[1]["tables"]:
        rows = zip(*table["values"], table["counts"], strict=True)
        for *values, count in rows:
            if values == ["nurse"]:
                return int(count)
    return 0


def one_user(user: object, job: object) -> Attack:
    """One bad record in 16,384 must not remove others: counts differ by 10 deviations at most."""

    def attack() -> Verdict:
        counts = []
        with tempfile.TemporaryDirectory() as name:
            for place, bad in (("without", False), ("with", True)):
                path = Path(name) / place
                path.mkdir()
                bench = Bench(path, ("sex", "job"), 1)
                users: list[object] = [f"u{i}" for i in range(USERS)]
                jobs: list[object] = ["nurse"] * USERS
                if bad:
                    users[5000], jobs[5000] = user, job
                aggregator = bench.aggregator()
                columns = [["F"] * USERS, jobs]
                # `submit` cuts values, replaces long ids and omits records without an id.
                submit(bench.plan, bench.broker, bench.names, users, columns, batch_size=USERS)
                bench.work(aggregator)
                counts.append(_nurses(bench.releases()[0]) if bench.releases() else 0)
                noise = bench.releases()[0].levels[1]["stderr"] if bench.releases() else 0
        change = abs(counts[0] - counts[1])
        return Verdict(
            held=change < 10 * noise,
            what=f"the count goes from {counts[0]} to {counts[1]}; noise {noise:.0f}",
        )

    return attack


def metrics() -> Verdict:
    """Send bad values and check that the metrics do not reveal how many there were."""
    with tempfile.TemporaryDirectory() as name:
        pages = []
        for place, sent in (("none", 0), ("some", 7)):
            path = Path(name) / place
            path.mkdir()
            bench = Bench(path, ("sex", "job"), 1)
            aggregator = bench.aggregator()
            for _ in range(sent):
                bench.send(bench.raw(["mallory"], [["F"], ["x" * 300]]))
            bench.work(aggregator)
            page = generate_latest(bench.registry).decode().splitlines()
            pages.append([line for line in page if "_created" not in line])
    lines = [after for before, after in zip(*pages, strict=True) if before != after]
    what = lines[0][:120] if lines else "the metrics are the same with and without them"
    return Verdict(held=not lines, what=what)


def second_account() -> Verdict:
    """Try to release the same window again with a second account file."""
    with tempfile.TemporaryDirectory() as name:
        bench = Bench(Path(name), ("sex",), 1)
        aggregator = bench.aggregator()
        submit(bench.plan, bench.broker, bench.names, [f"u{i}" for i in range(500)], [["F"] * 500])
        bench.work(aggregator)
        before = [r.levels[1]["tables"] for r in bench.releases()]
        bench.work(bench.aggregator("second", seed=2))
        after = [r.levels[1]["tables"] for r in bench.releases()]
        paid = [len(bench.account(a).read().entries) for a in ("account", "second")]
    what = f"the accounts paid {paid[0]} and {paid[1]} times"
    return Verdict(held=before == after and sum(paid) == 1, what=what)


def made_up_users() -> Verdict:
    """Send 60,000 ids: the window is paid and released once, within `MAX_MEMORY`."""
    # The limit applies to the whole process; no other attack runs in it.
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
    with tempfile.TemporaryDirectory() as name:
        bench = Bench(Path(name), [f"c{j}" for j in range(COLUMNS)], 3)
        rng = np.random.default_rng(1)
        for start in range(0, MADE_UP, 2000):
            columns = [[f"v{v}" for v in c] for c in rng.integers(0, VALUES, (COLUMNS, 2000))]
            users = [f"made up {start + i}" for i in range(2000)]
            submit(bench.plan, bench.broker, bench.names, users, columns)
        aggregator = bench.aggregator()
        try:
            bench.work(aggregator)
            failure = ""
        except Exception as error:  # noqa: BLE001 - any error belongs to the verdict
            failure = f"; {type(error).__name__}: {error}"
        paid = len(bench.account("account").read().entries)
        released = len(bench.releases())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    what = f"paid {paid}, released {released}, {peak} MB{failure}"
    return Verdict(held=paid == released == 1, what=what)


def one_batch() -> Verdict:
    """Send one long value in each column, the others empty: no column takes its width for all."""
    with tempfile.TemporaryDirectory() as name:
        bench = Bench(Path(name), [f"c{j}" for j in range(COLUMNS)], 1)
        n = 13_000
        columns = [["x" * 256, *[""] * (n - 1)]] * COLUMNS
        raw = bench.raw([str(i) for i in range(n)], columns)
        aggregator = bench.aggregator()
        aggregator.turn()  # allocates what is allocated only once, before the measurement
        bench.send(raw)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        aggregator.turn()
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10
    what = f"{len(raw):,} bytes became {grown >> 20} MB"
    return Verdict(held=grown < MEMORY_OF_A_BATCH, what=what)


# A2, A3 and A6 are the numbers of the findings of a security review that the attacks repeat.
ATTACKS: dict[str, Attack] = {
    "A2 one user's long value": one_user("mallory", "x" * 300),
    "A2 one user's huge value": one_user("mallory", "x" * 2_000_000),
    "A2 one user's long id": one_user("m" * 300, "nurse"),
    "A2 one user's empty id": one_user("", "nurse"),
    "A2 an exact count on /metrics": metrics,
    "A3 a second account file": second_account,
    "A6 made-up users and values": made_up_users,
    "A6 a batch that swells in memory": one_batch,
}
