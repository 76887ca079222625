"""Check which broker node a client asks, and that it goes on refreshing its metadata."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import errors as kafka_errors
from kafka.cluster import ClusterMetadata
from kafka.future import Future
from kafka.net.manager import KafkaConnectionManager

from calmstream.broker.kafka.client_repairs.nodes import NodeChoice, keep_refreshing

WELL, OTHER, BOOTSTRAP = 1, 2, 9
TRIES = 64  # the choice among equals is random: one wrong in two shows at 1e-19


class Connection:
    """A stand-in for the client's connection: its handshake, and its requests under way."""

    def __init__(self) -> None:
        self.init_future, self.close_future = Future(), Future()
        self.connected = False
        self.paused: set[str] = set()
        self.in_flight_requests: deque[tuple[Any, ...]] = deque()

    def greet(self) -> Connection:
        self.connected = True
        self.init_future.success(True)
        return self

    def ask(self, at: float) -> Connection:
        self.in_flight_requests.append((0, Future(), at, at + 20, None))
        return self


@dataclass
class Node:
    node_id: int


@dataclass
class Manager:
    """The parts of the client's connection manager that a choice needs."""

    nodes: tuple[int, ...] = (WELL, OTHER)
    backoff: dict[int, float] = field(default_factory=dict)
    _backoff: dict[int, tuple[int, float, float]] = field(default_factory=dict)
    _conns: dict[int, Connection] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.cluster = self
        self.updates = 0

    def brokers(self) -> list[Node]:
        return [Node(node) for node in self.nodes]

    def bootstrap_brokers(self) -> list[Node]:
        return [Node(BOOTSTRAP)]

    def connection_delay(self, node: int) -> float:
        return self.backoff.get(node, 0.0)

    def request_update(self) -> None:
        self.updates += 1

    def broker_metadata(self, node: int) -> Node | None:
        return Node(node) if node in self.nodes else None

    def maybe_raise_auth_failure(self, node: int) -> None:
        """Do nothing: no connection was refused."""

    def get_connection(self, node: int, **_: Any) -> Connection:
        if node not in (*self.nodes, BOOTSTRAP):
            raise kafka_errors.UnknownBrokerIdError(node)
        if node not in self._conns:
            self._conns[node] = Connection()
        return self._conns[node]

    def lose(self, node: int, error: BaseException) -> None:
        connection = self._conns.pop(node)
        connection.connected = False
        connection.close_future.failure(error)


class Bench:
    def __init__(self, *nodes: int) -> None:
        self.manager = Manager(nodes or (WELL, OTHER))
        self.now = 100.0
        self.choice = NodeChoice(self.manager, lambda: self.now)

    def connect(self, node: int) -> Connection:
        connection: Connection = self.choice.connection(node)
        return connection

    def time_out(self, node: int) -> None:
        self.manager.lose(node, kafka_errors.RequestTimedOutError("after 20 s"))

    def chosen(self) -> set[object]:
        return {self.choice.best() for _ in range(TRIES)}


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_without_the_repair_the_client_prefers_a_node_without_a_connection(bench: Bench) -> None:
    bench.connect(WELL).greet().ask(99.9)
    theirs = KafkaConnectionManager.least_loaded_node
    assert {theirs(bench.manager) for _ in range(TRIES)} == {OTHER}, (
        "the fault is gone: delete NodeChoice"
    )
    assert bench.chosen() == {WELL}


def test_without_the_repair_the_client_never_uses_a_bootstrap_address_again(bench: Bench) -> None:
    bench.manager._backoff[WELL] = (1, 0.0, 0.0)
    assert bench.chosen() == {OTHER}, "one node does not fail"
    bench.manager._backoff[OTHER] = (1, 0.0, 0.0)
    theirs = KafkaConnectionManager.least_loaded_node
    assert BOOTSTRAP not in {theirs(bench.manager) for _ in range(TRIES)}, "the fault is gone"
    assert bench.chosen() == {BOOTSTRAP}
    bench.manager._backoff[BOOTSTRAP] = (2, 0.0, 0.0)
    assert bench.chosen() == {WELL, OTHER}, "the one that failed least often"


def test_a_node_that_timed_out_is_not_chosen_until_its_next_handshake(bench: Bench) -> None:
    bench.connect(WELL).greet().ask(99.9)
    bench.connect(OTHER).greet()
    bench.time_out(OTHER)
    for _ in range(2):  # it takes connections, and hangs
        bench.connect(OTHER)
        assert bench.chosen() == {WELL}
        bench.time_out(OTHER)
    bench.connect(OTHER).greet()
    assert bench.chosen() == {OTHER}, "the idle one again"


def test_a_node_with_an_overdue_answer_is_not_chosen(bench: Bench) -> None:
    bench.connect(WELL).greet().ask(100.0).ask(100.0)
    bench.connect(OTHER).greet().ask(100.0)
    assert bench.chosen() == {OTHER}
    bench.now = 101.5
    bench.manager._conns[WELL].in_flight_requests.clear()
    bench.manager._conns[WELL].ask(101.4).ask(101.4)
    assert bench.chosen() == {WELL}


def test_a_hanging_node_is_chosen_where_there_is_no_other(bench: Bench) -> None:
    for node in (WELL, OTHER, BOOTSTRAP):
        bench.connect(node)
        bench.time_out(node)
    assert bench.chosen() == {WELL, OTHER, BOOTSTRAP}
    bench.manager.backoff[WELL] = 0.5
    assert bench.chosen() == {OTHER, BOOTSTRAP}
    bench.manager.backoff[BOOTSTRAP] = 0.5
    bench.connect(OTHER).paused.add("throttle")
    assert bench.chosen() == {None}


def test_without_the_repair_the_client_does_not_renew_the_list_for_an_unknown_node() -> None:
    bench = Bench(WELL)
    with pytest.raises(kafka_errors.UnknownBrokerIdError):
        KafkaConnectionManager.get_connection(bench.manager, OTHER)
    assert bench.manager.updates == 0, "the fault is gone: delete this part of NodeChoice"
    with pytest.raises(kafka_errors.UnknownBrokerIdError):
        bench.connect(OTHER)
    assert bench.manager.updates == 1


class Cluster(ClusterMetadata):  # type: ignore[misc]  # the client has no types
    """The client's own metadata with its loop, whose requests end as a test says."""

    def __init__(self, *outcomes: BaseException | None) -> None:
        super().__init__(bootstrap_servers=["127.0.0.1:1"])
        self._manager = SimpleNamespace(bootstrapped=True, connection_delay=lambda _: 0)
        self._refresh_loop_future = "it runs"
        self.outcomes = list(outcomes)
        self.waits: list[float] = []

        async def wait(seconds: float) -> None:
            self.waits.append(seconds)
            self._last_refresh_ms = float("-inf")  # the pause has passed
            self.closed = not self.outcomes

        wait.notify = lambda: None  # type: ignore[attr-defined]
        self._wakeup = wait

    async def _do_refresh_metadata(self, _node: object) -> None:
        outcome = self.outcomes.pop(0)
        if outcome is not None:
            raise outcome
        self._need_update = False
        self._last_refresh_ms = self._last_successful_refresh_ms = float("inf")


@pytest.fixture(autouse=True)
def _still_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop the clock: the pauses are milliseconds, which may pass between any two lines."""
    monkeypatch.setattr("kafka.cluster.time", SimpleNamespace(monotonic=lambda: 1000.0))


def client(cluster: Cluster) -> Any:
    return SimpleNamespace(_manager=SimpleNamespace(cluster=cluster))


ERROR = RuntimeError("Set changed size during iteration")


def test_without_the_repair_an_error_ends_the_loop() -> None:
    cluster = Cluster(ERROR, None)
    with pytest.raises(RuntimeError):
        asyncio.run(cluster._refresh_loop())
    assert len(cluster.outcomes) == 1, "the fault is gone: delete keep_refreshing"


@pytest.mark.parametrize("error", [ERROR, kafka_errors.NodeNotReadyError()])
def test_the_loop_survives_errors(error: Exception) -> None:
    cluster = Cluster(error, error, None)
    keep_refreshing(client(cluster))
    asyncio.run(cluster._refresh_loop())
    assert cluster.outcomes == []
    assert not cluster.need_update
