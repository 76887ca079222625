"""Check that a client goes on refreshing its metadata after an error."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import errors as kafka_errors
from kafka.cluster import ClusterMetadata

from calmstream.broker.kafka.client_repairs.nodes import keep_refreshing


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
