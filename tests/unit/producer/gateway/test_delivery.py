"""Sealed batches are sent until the broker has them or their window is over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from queue import SimpleQueue

import pytest
from structlog.testing import capture_logs

from calmstream.broker.transport import Sink
from calmstream.common.errors import CalmstreamError, FatalError, RecoverableError
from calmstream.producer.gateway.durable.plan_spool import over_at
from calmstream.producer.gateway.encoding import EncodedBatch
from calmstream.producer.gateway.http.delivery import RENEW_SECONDS, BatchDelivery
from calmstream.producer.gateway.metrics import Failure, GatewayTotals
from calmstream.producer.gateway.sender import BatchSender
from tests.support.clock import ManualClock
from tests.support.producer import START, ScriptedSink, make_plan, names_of

PLAN = make_plan()
DOWN, REFUSED = RecoverableError("down"), FatalError("not allowed")


class Sent(ScriptedSink):
    closed = False

    def close(self, timeout: float) -> None:
        assert timeout == 0
        self.closed = True


class Kept:
    """A spool and a committer of one plan, whose batches have their id twice as their body."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.plans, self.mark, self.totals = {PLAN.digest: self}, self, GatewayTotals()
        self.sealed = SimpleQueue[EncodedBatch]()
        self.settled = SimpleQueue[tuple[EncodedBatch, bool]]()

    def body(self, batch: EncodedBatch) -> EncodedBatch:
        return replace(batch, value=batch.batch_id * 2)

    def present(self) -> int:
        return self._clock.now_ms()


class Made:
    def __init__(self, script: Callable[[int], int | CalmstreamError | None]) -> None:
        self.clock = ManualClock(START * 1000)
        self.kept, self.sinks = Kept(self.clock), list[Sent]()
        self._script = script
        self._settled: dict[int, bool] = {}
        self.delivery = BatchDelivery(
            self.kept,  # type: ignore[arg-type]
            self.kept,  # type: ignore[arg-type]
            self,  # type: ignore[arg-type]
            names_of,
            self.clock,
        )

    def sink(self) -> Sink:
        self.sinks.append(Sent(self._script))
        return self.sinks[-1]  # type: ignore[return-value]

    def put(self, *numbers: int, period: int = 0) -> None:
        for number in numbers:
            batch = EncodedBatch(PLAN, 0, period, 5, number.to_bytes(16, "big"))
            self.kept.sealed.put(batch)

    def turn(self, seconds: float = 0.0) -> None:
        self.clock.advance(seconds)
        self.delivery.turn()

    def settled(self) -> dict[int, bool]:
        while not self.kept.settled.empty():
            batch, acknowledged = self.kept.settled.get()
            self._settled[int.from_bytes(batch.batch_id, "big")] = acknowledged
        return self._settled


def test_an_acknowledged_batch_is_settled() -> None:
    made = Made(lambda i: i)
    made.put(1, 2)
    made.turn()
    made.turn()
    assert made.settled() == {1: True, 2: True}
    assert made.delivery.waiting == 0
    (sink,) = made.sinks
    assert {value for _, _, value in sink.sends} == {n.to_bytes(16, "big") * 2 for n in (1, 2)}


def test_batches_wait_on_the_disk_while_the_sender_of_their_plan_is_full() -> None:
    made = Made(lambda _: None)
    made.put(*range(BatchSender.most + 6))
    made.turn()
    made.turn()
    (sink,) = made.sinks
    assert len(sink.sends) == BatchSender.most
    assert made.delivery.waiting == BatchSender.most + 6


@pytest.mark.parametrize("error", [DOWN, REFUSED])
def test_a_batch_is_sent_again_until_its_window_is_over(error: CalmstreamError) -> None:
    made = Made(lambda _: error)
    made.put(1)
    last = over_at(PLAN, 0) / 1000 - START
    for _ in range(int(last) - 1):
        made.turn(1.0)
    assert made.settled() == {}, "it never gives up before"
    assert sum(len(sink.sends) for sink in made.sinks) >= 5
    assert len({send for sink in made.sinks for send in sink.sends}) == 1, "the same bytes"
    for _ in range(20):
        made.turn(1.0)
    assert made.settled() == {1: False}
    assert made.kept.totals.failures == {Failure.EXPIRED: 5}


def test_a_batch_of_a_window_that_is_over_is_not_sent() -> None:
    made = Made(lambda i: i)
    made.clock.wall_ms = over_at(PLAN, 0)
    made.put(1)
    made.put(2, period=5)
    made.turn()
    made.turn()
    assert made.settled() == {1: False, 2: True}
    assert [len(sink.sends) for sink in made.sinks] == [1]


def test_after_a_lasting_error_the_connection_is_made_again() -> None:
    made = Made(lambda i: REFUSED if i == 0 else i)
    made.put(1)
    made.turn()
    made.turn()
    assert len(made.sinks) == 1, "not at once"
    made = Made(lambda _: REFUSED)
    made.put(1)
    made.turn()
    for _ in range(5):
        made.turn(RENEW_SECONDS / 4)
    first, *others = made.sinks
    assert first.closed
    assert len(others) == 1


@pytest.mark.parametrize("error", [DOWN, REFUSED])
def test_each_outage_is_logged_once_and_its_end(error: CalmstreamError) -> None:
    fails, works = ("sending fails", str(error)), ("sending works again", None)
    down = True
    made = Made(lambda i: error if down else i)
    with capture_logs() as logs:
        for number in (1, 2):
            down = True
            made.put(number)
            for _ in range(3):
                made.turn(0.1)
            down = False
            for _ in range(20):
                made.turn(1.0)
    assert made.settled() == {1: True, 2: True}
    assert [(log["event"], log.get("error")) for log in logs] == [fails, works] * 2


def test_a_long_outage_is_logged_once_a_minute_and_without_a_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def away(_: Made) -> Sink:
        raise DOWN

    monkeypatch.setattr(Made, "sink", away)
    made = Made(lambda _: None)
    with capture_logs() as logs:
        for _ in range(130):
            made.turn(1.0)
    assert [log["event"] for log in logs] == ["sending fails"] * 3


def test_an_outage_has_not_ended_when_its_batches_are_given_up() -> None:
    made = Made(lambda _: DOWN)
    made.put(1)
    with capture_logs() as logs:
        made.turn()
        for _ in range(3):
            made.turn(over_at(PLAN, 0) / 1000)
    assert made.settled() == {1: False}
    assert "sending works again" not in [log["event"] for log in logs]
