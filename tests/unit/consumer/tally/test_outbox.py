"""Check the outbox, which sends a worker's writes and keeps each until it is acknowledged."""

from __future__ import annotations

from typing import Any

import pytest

from calmstream.broker.transport import Partition
from calmstream.common.errors import FatalError, RecoverableError
from calmstream.consumer.tally.writing import outbox as module
from calmstream.consumer.tally.writing.outbox import Write, WriteOutbox
from tests.support.clock import ManualClock
from tests.support.producer import ScriptedSink
from tests.support.tally import small_plan
from tests.support.tally_bench import worker_context

A, B = Partition("reports", 0), Partition("reports", 1)


class Bench:
    """An outbox with a manual clock and ten seconds for each write; the guard must allow sends."""

    def __init__(self) -> None:
        self.sink, self.clock = ScriptedSink(lambda _: None), ManualClock()
        self.allowed = True
        context = worker_context(small_plan(), self.clock, retry_seconds=10.0)
        self.outbox = WriteOutbox(context, self.sink, self.guard)  # type: ignore[arg-type]

    def guard(self) -> None:
        if not self.allowed:
            raise FatalError("not allowed")

    def send(self, key: bytes = b"k", source: Partition = A, **more: Any) -> None:
        self.outbox.send(Write(source, "topic", 0, key, lambda: b"value", **more))


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.mark.parametrize("failing", [True, False])
def test_the_budget_counts_from_the_first_attempt(bench: Bench, failing: bool) -> None:
    bench.send()
    for _ in range(40):
        bench.clock.advance(0.25)
        if failing:
            bench.sink.deliveries[-1].outcome = RecoverableError("x")
        bench.outbox.settle()
    bench.clock.advance(0.25)
    with pytest.raises(FatalError, match="not acknowledged for 10 s"):
        bench.outbox.settle()


def test_a_write_refused_for_good_is_fatal(bench: Bench) -> None:
    bench.send()
    bench.sink.deliveries[0].outcome = FatalError("too large")
    with pytest.raises(FatalError, match="too large"):
        bench.outbox.settle()


def test_nothing_is_sent_or_sent_again_once_the_guard_refuses(bench: Bench) -> None:
    bench.send()
    bench.sink.deliveries[0].outcome = RecoverableError("x")
    bench.outbox.settle()
    bench.allowed = False
    bench.clock.advance(1)
    with pytest.raises(FatalError, match="not allowed"):
        bench.outbox.settle()
    with pytest.raises(FatalError, match="not allowed"):
        bench.send()
    assert len(bench.sink.sends) == 1


def test_writes_of_partitions_that_went_are_forgotten(bench: Bench) -> None:
    bench.send(b"a", A)
    bench.send(b"b", B)
    bench.outbox.drop([A])
    bench.sink.deliveries[1].outcome = 1
    bench.outbox.settle()
    assert len(bench.outbox) == 0


def test_no_more_than_the_limit_is_on_its_way(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FLIGHT_RECORDS", 3)
    for number in range(8):
        bench.send(bytes([number]))
    assert len(bench.sink.sends) == 3
    bench.clock.advance(100)  # waiting to be sent costs no budget
    for delivery in bench.sink.deliveries:
        delivery.outcome = 1
    bench.outbox.settle()
    assert [key for _, key, _ in bench.sink.sends] == [bytes([n]) for n in range(6)]
    assert len(bench.outbox) == 5


def test_bytes_on_their_way_are_limited_too(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FLIGHT_BYTES", 8)
    for _ in range(4):
        bench.send()  # five bytes each
    assert len(bench.sink.sends) == 2
    bench.outbox.drop([A])
    bench.send(source=B)
    assert len(bench.sink.sends) == 3


def test_drain_keeps_alive_until_all_is_acknowledged(bench: Bench) -> None:
    bench.send()
    beats: list[int] = []

    def keep_alive() -> None:
        beats.append(1)
        if len(beats) == 5:
            bench.sink.deliveries[0].outcome = 1

    bench.outbox.drain(keep_alive)
    assert len(beats) == 5


def test_drain_gives_up_at_its_deadline(bench: Bench) -> None:
    bench.send()
    with pytest.raises(RecoverableError, match="1 writes"):
        bench.outbox.drain(lambda: None, deadline=2.0)
    assert 2.0 <= bench.clock.monotonic() < 2.1
