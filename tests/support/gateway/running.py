"""A running gateway in this process, and clients that speak HTTP to it."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

from prometheus_client import CollectorRegistry

from calmstream.broker.transport import Partition, Sink
from calmstream.common.clock import Clock, SystemClock
from calmstream.common.errors import RecoverableError
from calmstream.estimators.plan import Plan
from calmstream.estimators.wire.batch import decode_batch
from calmstream.producer.gateway.http.gateway import Gateway
from calmstream.producer.gateway.http.metrics import GatewayMetrics
from calmstream.producer.gateway.settings import GatewaySettings
from tests.support.faulty_broker import FaultyBroker
from tests.support.gateway.spool_world import counting_plan
from tests.support.service.processes import until
from tests.support.tally import names_of

SECONDS = 30.0
JSON_LINES = "application/x-ndjson"


def present_plan(window: int = 600, windows: int = 100, grace: int = 40) -> Plan:
    """Return a plan in the middle of its second window, of reports that name themselves."""
    return counting_plan(window, grace, windows, int(time.time()) - window - window // 2)


def line(plan: Plan, value: int, report_id: str = "", period: int | None = None) -> bytes:
    stated = plan.window_at(int(time.time() * 1000)) if period is None else period
    report = {
        "v": "1.0",
        "plan": plan.digest,
        "group": 0,
        "period": stated,
        "n": 1,
        "columns": {"v": [value]},
    }
    chosen = report_id or Random(value).randbytes(16).hex()
    return json.dumps({"id": chosen, "report": report}).encode()


def present_broker() -> FaultyBroker:
    return FaultyBroker(clock=lambda: int(time.time() * 1000))


def away() -> Sink:
    raise RecoverableError("no broker answers")


@dataclass(frozen=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def reason(self) -> str:
        assert self.headers["content-type"] == "application/problem+json", self
        return str(self.json["reason"])

    @property
    def results(self) -> list[str]:
        return [one["result"] for one in self.json["results"]]


@dataclass
class Running:
    gateway: Gateway
    plan: Plan
    broker: FaultyBroker
    registry: CollectorRegistry
    stop: threading.Event = field(default_factory=threading.Event)

    @property
    def why(self) -> str:
        """Why the gateway is not ready; empty if it is."""
        verdict = self.gateway.health.readiness()
        return "" if verdict.well else verdict.detail

    @property
    def path(self) -> str:
        return f"/v1/plans/{self.plan.digest}"

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Reply:
        connection = http.client.HTTPConnection("127.0.0.1", self.gateway.port, timeout=SECONDS)
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            connection.request(method, path, body, given)
            answer = connection.getresponse()
            names = {name.lower(): value for name, value in answer.getheaders()}
            return Reply(answer.status, names, answer.read())
        finally:
            connection.close()

    def report(self, *lines: bytes, **headers: str) -> Reply:
        given = {"content_type": JSON_LINES} | headers
        return self.ask("POST", f"{self.path}/reports", b"\n".join(lines), **given)

    def raw(self, sent: bytes, seconds: float = SECONDS) -> bytes:
        with socket.create_connection(("127.0.0.1", self.gateway.port), seconds) as connection:
            connection.sendall(sent)
            return received(connection)

    def metric(self, name: str, **labels: str) -> float:
        if "plan" in labels:
            labels["plan"] = f"{self.plan.name}-{self.plan.digest[:32]}"
        return self.registry.get_sample_value(name, labels) or 0.0

    def values(self) -> list[int]:
        found, seen = [], set()
        for topic in names_of(self.plan).all_reports:
            for number in range(self.plan.partitions):
                for record in self.broker.records(Partition(topic, number)):
                    if record.key not in seen:
                        seen.add(record.key)
                        batch = decode_batch(self.plan, 0, record.key, record.value)
                        found += [int(value) for value in batch.columns["v"]]
        return sorted(found)


def received(connection: socket.socket) -> bytes:
    parts = []
    with contextlib.suppress(ConnectionResetError, BrokenPipeError):
        while part := connection.recv(1 << 16):
            parts.append(part)
    return b"".join(parts)


@contextlib.contextmanager
def running(
    directory: Path,
    plan: Plan | None = None,
    *,
    clock: Clock | None = None,
    broker: FaultyBroker | None = None,
    connect: Callable[[], Sink] | None = None,
    app_keys: Path | None = None,
    roots: tuple[str, ...] = (),
    **settings: Any,
) -> Iterator[Running]:
    """Run a gateway in a thread; the spool is ``directory/spool``."""
    plan = plan or present_plan()
    broker = broker or present_broker()
    broker.topics().create(names_of(plan).specs(86_400_000))
    plans = directory / "plans"
    plans.mkdir(exist_ok=True)
    (plans / "plan.json").write_bytes(plan.to_bytes())
    registry = CollectorRegistry()
    chosen = {"port": 0, "min_batch": 1, "linger": 0.05} | settings
    gateway = Gateway(
        GatewaySettings(**chosen),
        GatewayMetrics(registry),
        clock or SystemClock(),
        spool=directory / "spool",
        plans=plans,
        roots=roots,
        allow_unsigned=True,
        app_keys=app_keys,
        broker=SimpleNamespace(sink=connect or broker.sink, topics=broker.topics),  # type: ignore[arg-type]
        names=names_of,
    )
    found = Running(gateway, plan, broker, registry)
    errors: list[BaseException] = []

    def live() -> None:
        try:
            gateway.run(found.stop)
        except BaseException as error:  # noqa: BLE001 - raised below
            errors.append(error)

    thread = threading.Thread(target=live)
    thread.start()
    try:
        until("the gateway is ready", lambda: not found.why or bool(errors))
        if not errors:
            yield found
    finally:
        found.stop.set()
        thread.join(SECONDS)
        assert not thread.is_alive(), "the gateway does not stop"
    if errors:
        raise errors[0]
