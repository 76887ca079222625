"""Raw records of the central model, and the coded table that they become."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson

from calmstream.broker.names import CentralNames
from calmstream.broker.transport import Partition, Record
from calmstream.common.health import RoleHealth
from calmstream.consumer.central.aggregator import Aggregator
from calmstream.consumer.central.budget_account import BudgetAccount
from calmstream.consumer.central.config import AggregatorConfig, AggregatorContext
from calmstream.consumer.central.metrics import central_metrics
from calmstream.consumer.central.subscribe import subscribe_releases
from calmstream.consumer.central.windows import RawWindows
from calmstream.consumer.metrics.registry import new_registry
from calmstream.estimators.central.coding import ROW_BYTES, code_records
from calmstream.estimators.central.plan import CentralPlan
from calmstream.estimators.central.release_reading import CentralRelease
from calmstream.estimators.central.wire import encode_batches
from calmstream.estimators.randomness import SeededRandomness
from calmstream.producer.central.submit import submit
from tests.support.clock import ManualClock
from tests.support.faulty_broker import FaultyBroker

START = 1_700_000_000
PLAN = CentralPlan(
    name="neighbours",
    purpose="tests",
    owner="tests",
    columns=("sex", "job", "city"),
    epsilon="8",
    delta="1e-6",
    levels=3,
    start=START,
    window=60,
    releases=2,
    partitions=2,
)
KEY = b"k" * 16

Row = tuple[object, tuple[object, ...]]
"""A user's id and values, as a sender is given them."""

Table = Counter[tuple[str | None, ...]]
"""Coded records by their labels, without their users."""


@dataclass(frozen=True)
class Batch:
    partition: int
    offset: int
    timestamp: int
    body: bytes

    def record(self) -> Record:
        where = Partition("raw", self.partition)
        return Record(where, self.offset, self.timestamp, True, b"b" * 16, self.body)


def bodies(rows: Sequence[Row], batch_size: int = 1000, plan: CentralPlan = PLAN) -> list[bytes]:
    users = [user for user, _ in rows]
    columns = [[values[j] for _, values in rows] for j in range(len(plan.columns))]
    return [body for _, body in encode_batches(plan, users, columns, batch_size)]


def foreign_body(rows: Sequence[Row], dumps: object = orjson.dumps) -> bytes:
    """Encode a batch as a sender that does not check or change the users' texts."""
    document = {
        "v": "central-1.0",
        "plan": PLAN.digest,
        "n": len(rows),
        "users": [user for user, _ in rows],
        "columns": {name: [values[j] for _, values in rows] for j, name in enumerate(PLAN.columns)},
    }
    raw = dumps(document)  # type: ignore[operator]
    return raw.encode("utf-8", "surrogateescape") if isinstance(raw, str) else raw


def placed(given: Iterable[bytes]) -> list[Batch]:
    """Place batches in two partitions in turn, a second apart, all in window 0."""
    return [Batch(i % 2, i // 2, (START + i % 50) * 1000 + i, body) for i, body in enumerate(given)]


def packed(batches: Iterable[Batch], plan: CentralPlan = PLAN) -> list[bytes]:
    windows = RawWindows(plan, lambda _: True, KEY)
    for batch in batches:
        windows.read(batch.record())
    return windows.take(0)


def table(batches: Iterable[Batch], plan: CentralPlan = PLAN) -> Table:
    records, labels = code_records(packed(batches, plan), len(plan.columns))
    return Counter(
        tuple(None if code < 0 else labels[j][code].decode() for j, code in enumerate(row.tolist()))
        for row in records.codes
    )


class CentralBench:
    """Topics in one broker that shares its clock with the aggregators, and accounts in a folder."""

    def __init__(self, folder: Path, plan: CentralPlan = PLAN) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.plan = plan
        self.clock = ManualClock(plan.start * 1000)
        self.broker = FaultyBroker(self.clock.now_ms)
        self.names = CentralNames("test", plan.name, plan.digest, plan.partitions)
        self.broker.topics().create(self.names.specs(plan.window * 1000))
        self.registry = new_registry()

    def account(self, name: str = "account") -> BudgetAccount:
        account = BudgetAccount(self.folder / name, self.plan)
        if not (self.folder / name).exists():
            account.create()
        return account

    def submit(self, users: int, **columns: str | None) -> None:
        values = [[columns.get(name)] * users for name in self.plan.columns]
        ids = [f"{sorted(columns.items())}-{i}" for i in range(users)]
        submit(self.plan, self.broker, self.names, ids, values, batch_size=100)

    def aggregator(
        self, account: str = "account", seed: int = 1, memory: int = 1 << 30
    ) -> Aggregator:
        return Aggregator(
            self.context(self.account(account), SeededRandomness(seed)),
            AggregatorConfig(raw_memory_bytes=memory, poll_seconds=0),
        )

    def context(self, account: BudgetAccount, randomness: SeededRandomness) -> AggregatorContext:
        self.registry = new_registry()
        return AggregatorContext(
            self.plan,
            self.names,
            self.broker,
            account,
            self.clock,
            randomness,
            central_metrics(self.registry, self.plan),
            RoleHealth("aggregator", self.clock),
            "test",
        )

    def turns(self, aggregator: Aggregator, number: int = 12) -> None:
        """Take turns; a release takes fewer than twelve."""
        for _ in range(number):
            if not aggregator.over():
                aggregator.turn()
            self.clock.advance(1.5)

    def sample(self, name: str) -> float:
        labels = {"plan": f"{self.plan.name}-{self.plan.digest[:32]}"}
        value = self.registry.get_sample_value(f"calmstream_central_{name}", labels)
        assert value is not None
        return value

    def releases(self) -> list[CentralRelease]:
        return list(subscribe_releases(self.broker, self.names, follow=False, poll_seconds=0))


def held_bytes(aggregator: Aggregator) -> int:
    """Return the approximate memory of its raw records; no metric, because it depends on them."""
    kept = (row for rows in aggregator._windows._rows.values() for row in rows.values())
    return sum(len(row) + ROW_BYTES for row in kept)


class Patience(threading.Event):
    """An event that is set after a number of checks; time advances at each check."""

    def __init__(self, clock: ManualClock, looks: int, seconds: float = 0.0) -> None:
        super().__init__()
        self._clock, self._left, self._seconds = clock, looks, seconds

    def is_set(self) -> bool:
        self._clock.advance(self._seconds)
        self._left -= 1
        return self._left < 0


def released_counts(release: CentralRelease, k: int) -> dict[tuple[str, ...], int]:
    count_of_value = {}
    for table in release.levels[k]["tables"]:
        for *values, count in zip(*table["values"], table["counts"], strict=True):
            count_of_value[tuple(values)] = count
    return count_of_value
