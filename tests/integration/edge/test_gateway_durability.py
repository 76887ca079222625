"""A gateway over restarts, a broker that is away, a full disk, and a clock that goes back."""

from __future__ import annotations

import errno
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from calmstream.broker.transport import Partition
from calmstream.common.clock import SystemClock
from calmstream.common.errors import FatalError
from calmstream.producer.gateway.durable import files
from calmstream.producer.gateway.http import gateway as gateway_module
from tests.support.gateway.running import (
    away,
    line,
    names_of,
    present_broker,
    present_plan,
    running,
    until,
)


class SteppedClock(SystemClock):
    offset = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.offset


def test_what_was_acknowledged_survives_a_restart_and_is_sent_once(tmp_path: Path) -> None:
    plan = present_plan()
    broker = present_broker()
    with running(tmp_path, plan, broker=broker, connect=away) as gateway:
        assert gateway.report(*(line(plan, value) for value in range(5))).status == 202
        assert gateway.values() == []
    with running(tmp_path, plan, broker=broker) as gateway:
        assert gateway.report(line(plan, 2)).results == ["duplicate"]
        until("they are sent", lambda: gateway.values() == [0, 1, 2, 3, 4])
    with running(tmp_path, plan, broker=broker) as gateway:
        assert gateway.report(line(plan, 2), line(plan, 7)).results == ["duplicate", "accepted"]
        until("the new one is sent", lambda: gateway.values() == [0, 1, 2, 3, 4, 7])
    topic = names_of(plan).reports(0)
    records = [broker.records(Partition(topic, number)) for number in range(plan.partitions)]
    assert sum(map(len, records)) == 2, "one batch of five, one of one, each sent once"


def test_a_second_gateway_on_the_same_spool_refuses_to_start(tmp_path: Path) -> None:
    with (
        running(tmp_path),
        pytest.raises(FatalError, match="every gateway needs a spool of its own"),
        running(tmp_path),
    ):
        pass


def test_a_full_disk_refuses_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = False
    append, write = files.LogFile.append, files.Files.write

    def limited(self: files.LogFile, data: bytes) -> None:
        if full:
            append(self, data[: len(data) // 2])
            raise OSError(errno.ENOSPC, "No space left on device")
        append(self, data)

    def limited_too(self: files.Files, path: Path, data: bytes) -> None:
        if full:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(self, path, data)

    monkeypatch.setattr(files.LogFile, "append", limited)
    monkeypatch.setattr(files.Files, "write", limited_too)
    plan = present_plan()
    with running(tmp_path, plan) as gateway:
        assert gateway.report(line(plan, 1)).status == 202
        full = True
        reply = gateway.report(line(plan, 2), line(plan, 1))
        assert (reply.status, reply.reason) == (503, "unavailable")
        assert int(reply.headers["retry-after"]) > 0
        assert reply.results == ["unavailable", "duplicate"]
        assert gateway.gateway.health.silent_seconds == 0
        until("the gateway is not ready", lambda: "disk" in gateway.why)
        until("it is shown", lambda: gateway.metric("calmstream_gateway_spool_full") == 1)
        full = False
        until("there is room again, without a report", lambda: not gateway.why)
        assert gateway.report(line(plan, 2)).status == 202
        until("all are sent", lambda: gateway.values() == [1, 2])
        until("the gateway is ready", lambda: not gateway.why)
    with running(tmp_path, plan) as gateway:
        assert gateway.report(line(plan, 1), line(plan, 2)).results == ["duplicate"] * 2


def test_a_disk_that_hangs_makes_the_gateway_look_dead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs, sync = threading.Event(), files.LogFile.sync
    hangs.set()

    def slow(self: files.LogFile) -> None:
        assert hangs.wait(60)
        sync(self)

    monkeypatch.setattr(files.LogFile, "sync", slow)
    monkeypatch.setattr(gateway_module, "STUCK_SECONDS", 0.5)
    plan = present_plan()
    with running(tmp_path, plan) as gateway, ThreadPoolExecutor(1) as pool:
        hangs.clear()
        reply = pool.submit(gateway.report, line(plan, 1))

        def silent() -> bool:
            before = gateway.gateway.health._turned
            time.sleep(1.0)
            return gateway.gateway.health._turned == before

        until("the loop counts as silent", silent)
        assert not reply.done(), "nothing is acknowledged before it is on the disk"
        hangs.set()
        assert reply.result(30).results == ["accepted"]
        until("the loop turns again", lambda: not silent())


def test_few_reports_wait_for_the_end_of_their_window(tmp_path: Path) -> None:
    plan, clock = present_plan(), SteppedClock()
    with running(tmp_path, plan, clock=clock, min_batch=3, linger=0.01) as gateway:
        assert gateway.report(line(plan, 1), line(plan, 2)).status == 202
        time.sleep(0.3)  # nothing can be waited for: they must not leave
        assert gateway.values() == []
        clock.offset = 1000 * (plan.window // 2 + plan.grace // 4 + 5)
        until("they leave when the window closes", lambda: gateway.values() == [1, 2])
        assert gateway.metric("calmstream_reports_small_total", plan="") == 2


def test_a_gateway_that_stops_answers_what_it_has_begun(tmp_path: Path) -> None:
    plan = present_plan()
    broker = present_broker()
    with running(tmp_path, plan, broker=broker) as gateway:
        gateway.report(line(plan, 1))
        gateway.stop.set()
        until("it drains", lambda: gateway.why == "draining")
    with running(tmp_path, plan, broker=broker) as gateway:
        until("nothing is lost", lambda: gateway.values() == [1])
