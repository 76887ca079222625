"""A gateway as a process of its own, with a real broker: kills, signals, and what it keeps."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import random
import signal
import socket
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from calmstream.broker.kafka import connect
from calmstream.broker.names import TopicNames
from calmstream.broker.transport import Broker, Record
from calmstream.common.clock import SystemClock
from calmstream.consumer.runtime.read_topics import PatientReader
from calmstream.estimators.plan import Plan
from calmstream.estimators.wire.batch import decode_batch
from tests.support.gateway.running import line
from tests.support.gateway.spool_world import counting_plan
from tests.support.ports import free_port
from tests.support.service.processes import Process, post_report, until

pytestmark = pytest.mark.kafka

DEADLINE = 60.0
REPORTS = 4000
KILLS = 30
ENOUGH = 300
TAKEN = {"accepted", "duplicate"}


@pytest.fixture
def broker(kafka_bootstrap: str) -> Iterator[Broker]:
    broker = connect(kafka_bootstrap)
    yield broker
    broker.close()


@dataclass
class Place:
    directory: Path
    bootstrap: str
    plan: Plan
    port: int = field(default_factory=free_port)
    namespace: str = field(default_factory=lambda: f"gateway-{uuid.uuid4().hex[:8]}")

    @property
    def names(self) -> TopicNames:
        return TopicNames.of(self.plan, self.namespace)

    @property
    def path(self) -> str:
        return f"/v1/plans/{self.plan.digest}/reports"

    def offer(self, document: bytes) -> None:
        (self.directory / "plans").mkdir()
        (self.directory / "plans" / "plan.json").write_bytes(document)

    def start(self, *more: object) -> Process:
        return Process(
            self.directory / "gateway.log",
            *("gateway", "--plans", self.directory / "plans"),
            *("--bootstrap", self.bootstrap, "--namespace", self.namespace),
            *("--spool", self.directory / "spool", "--port", self.port, *more),
        )


class Devices:
    """Devices that send a report again, the same bytes, until it is taken or too late."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self.acknowledged: set[int] = set()
        self.refused: Counter[str] = Counter()
        self.finish = threading.Event()
        self.threads = [threading.Thread(target=self._live) for _ in range(4)]

    def _live(self) -> None:
        while not self.finish.is_set():
            with self._lock:
                value = next(self._numbers)
            if value >= REPORTS:
                return
            body = line(self._place.plan, value)
            while not self.finish.is_set():
                result = self._send(body)
                if result in TAKEN:
                    self.acknowledged.add(value)
                if result:
                    self.refused[result] += result not in TAKEN
                    break
                time.sleep(0.05)
            time.sleep(0.02)

    def _send(self, body: bytes) -> str:
        status, answer = post_report(self._place.port, self._place.plan.digest, body, 5)
        return str(answer["results"][0]["result"]) if 0 < status < 500 else ""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_thirty_kills_lose_nothing_and_count_nothing_twice(
    tmp_path: Path, kafka_bootstrap: str, broker: Broker
) -> None:
    plan = counting_plan(20, 15, 60, int(time.time()) - 5)
    place = Place(tmp_path, kafka_bootstrap, plan)
    place.offer(plan.to_bytes())
    broker.topics().create(place.names.specs(7 * 86_400_000))
    devices, dice = Devices(place), random.Random(7)
    options = ("--allow-unsigned", "--min-batch", 5)
    gateway = place.start(*options)
    try:
        gateway.ready()
        for thread in devices.threads:
            thread.start()
        for _ in range(KILLS):
            time.sleep(dice.uniform(0.0, 1.5))
            gateway.kill()
            gateway = place.start(*options)
            if dice.random() < 0.8:
                gateway.ready()
        gateway.ready()
        until("enough reports", lambda: len(devices.acknowledged) > ENOUGH, 120)
        devices.finish.set()
        for thread in devices.threads:
            thread.join(60)
        until(
            "every window is forgotten",
            lambda: not list((tmp_path / "spool").rglob("*.spool")),
            120,
        )
    finally:
        devices.finish.set()
        gateway.kill()
    lines = map(json.loads, (tmp_path / "gateway.log").read_text().splitlines())
    lost = sum(one["reports"] for one in lines if one["event"].startswith("batch lost"))
    judge(plan, devices, reports_in(place, broker), lost)


def reports_in(place: Place, broker: Broker) -> list[Record]:
    reading = PatientReader(broker.reader(), broker.topics(), SystemClock())
    return list(reading.whole(place.names.inputs))


def judge(plan: Plan, devices: Devices, records: list[Record], lost: int) -> None:
    """Compare what was acknowledged with what a worker counts; ``lost`` reports are shown so."""
    counted, late, seen = Counter[int](), set[int](), set[bytes]()
    for record in sorted(records, key=lambda r: (r.partition, r.offset)):
        assert record.key is not None
        if record.key in seen:
            continue
        seen.add(record.key)
        batch = decode_batch(plan, 0, record.key, record.value)
        values = [int(value) for value in batch.columns["v"]]
        if record.timestamp < plan.window_end(batch.period) + 1000 * plan.grace:
            counted.update(values)
        else:
            late.update(values)
    assert len(devices.acknowledged) > ENOUGH, (len(devices.acknowledged), devices.refused)
    assert max(counted.values()) == 1, "counted twice"
    missing = devices.acknowledged - set(counted) - late
    summary = (
        f"{len(devices.acknowledged)} acknowledged, {len(counted)} counted, {len(late)} late, "
        f"{lost} shown as lost, {len(missing)} missing; refused: {dict(devices.refused)}"
    )
    assert len(missing) <= lost, f"acknowledged, not counted and not shown as lost: {summary}"
    sys.stdout.write(f"{summary}\n")


MARKS = (b"marked-agent-7f3a", b"203.0.113.77", b"198.51.100.78", b"marked-page", b"marked-cookie")
SOURCE = "127.0.0.77"
HEADERS = {
    "user-agent": "marked-agent-7f3a",
    "x-forwarded-for": "203.0.113.77",
    "forwarded": "for=198.51.100.78",
    "x-real-ip": "203.0.113.77",
    "referer": "https://marked-page.example/",
    "origin": "https://marked-page.example",
    "cookie": "marked-cookie=1",
}


def marked(place: Place, method: str, path: str, body: bytes | None, **more: str) -> int:
    connection = http.client.HTTPConnection(
        "127.0.0.1", place.port, timeout=DEADLINE, source_address=(SOURCE, 0)
    )
    try:
        connection.request(method, path, body, HEADERS | more)
        return connection.getresponse().status
    finally:
        connection.close()


def hostile(place: Place, sent: bytes) -> None:
    with (
        contextlib.suppress(OSError),
        socket.create_connection(("127.0.0.1", place.port), 10, (SOURCE, 0)) as connection,
    ):
        connection.sendall(sent)
        connection.settimeout(0.5)
        connection.recv(1000)


def test_nothing_of_the_sender_is_kept(
    tmp_path: Path, kafka_bootstrap: str, broker: Broker
) -> None:
    plan = counting_plan(600, 40, 10, int(time.time()) - 300)
    place = Place(tmp_path, kafka_bootstrap, plan)
    place.offer(plan.to_bytes())
    broker.topics().create(place.names.specs(7 * 86_400_000))
    gateway = place.start("--allow-unsigned", "--min-batch", 1, "--log-level", "debug")
    head = b"".join(b"%s: %s\r\n" % (k.encode(), v.encode()) for k, v in HEADERS.items())
    json_type: Any = {"content-type": "application/json"}
    try:
        gateway.ready()
        for value in range(20):
            body = line(plan, value)
            assert marked(place, "POST", place.path, body, **json_type) == 202
        assert marked(place, "POST", place.path, b"marked-page", **json_type) == 400
        assert marked(place, "GET", "/marked-page?marked-agent-7f3a", None) == 404
        assert marked(place, "POST", place.path, b"{}", **{"content-type": "marked-page"}) == 415
        hostile(place, b"marked-page marked-agent-7f3a\r\n\r\n")
        hostile(place, b"GET / HTTP/1.1\r\n" + head + b"x: " + b"a" * 20_000 + b"\r\n\r\n")
        hostile(place, b"GET / HTTP/1.1\r\nupgrade: websocket\r\nconnection: upgrade\r\n" + head)
        hostile(place, b"POST " + place.path.encode() + b" HTTP/1.1\r\n" + head)
        until(
            "the broker has them",
            lambda: gateway.metric("calmstream_reports_sent_total") == 20,
            DEADLINE,
        )
        metrics = gateway.page("/metrics")[1].encode()
        assert b"calmstream_gateway_reports_total" in metrics
        gateway.signal(signal.SIGTERM)
        assert gateway.wait(60) == 0
    finally:
        gateway.kill()
    kept = {"metrics": metrics, "log": (tmp_path / "gateway.log").read_bytes()}
    assert b"serving reports" in kept["log"]
    kept |= {str(path): path.read_bytes() for path in (tmp_path / "spool").rglob("*.*")}
    assert any(name.endswith(".spool") for name in kept)
    records = reports_in(place, broker)
    assert records
    for record in records:
        assert not record.headers
        kept[str(record.offset)] = (record.key or b"") + (record.value or b"")
    for name, content in kept.items():
        for mark in (*MARKS, SOURCE.encode()):
            assert mark not in content, f"{mark!r} is in {name}"
        if not name.endswith("log"):
            assert socket.inet_aton("203.0.113.77") not in content
