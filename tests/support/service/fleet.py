"""A small deployment of real processes with four observers, each asked what it says of a fault.

The observers are ``calmstream status``, ``/readyz`` of a process, the query of a panel of the
dashboards, and the alerts, which real Prometheus evaluates without their pending times.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from calmstream.broker.kafka import connect
from calmstream.broker.names import TopicNames
from calmstream.common.errors import CalmstreamError
from calmstream.estimators.plan import Plan
from calmstream.estimators.wire.batch import Batch, encode_batch
from tests.brokers.native import NativeKafka
from tests.support.deploy import alerts, panels
from tests.support.gateway.running import line
from tests.support.plans import pair_plan
from tests.support.ports import free_port
from tests.support.service.processes import Process, post_report, run, until
from tests.support.service.prometheus_server import PrometheusServer, at_once
from tests.support.signed import Operator
from tests.support.sink.postgres import PASSWORD, PostgresServer

WINDOW, GRACE = 10, 2
SECONDS = 150.0  # longest wait for an observer, and for health after a fault
CALM = {"info"}  # severities that say nothing about the health of the service

OF_DATA = {
    "CalmstreamPoisoningSuspected", "CalmstreamGroupShareOff", "CalmstreamErrorHigh",
    "CalmstreamNoReports",
}  # fmt: skip
"""Alerts about data: a few reports of a test, or none for a moment, may raise them at once."""

LASTING = {
    "CalmstreamRejections", "CalmstreamForeignRecords", "CalmstreamClockSkew",
    "CalmstreamRestartLoop", "CalmstreamRebalancing", "CalmstreamTicksMany",
    "CalmstreamGatewayOverloaded", "CalmstreamBrokerTrouble", "CalmstreamReportsGivenUp",
    "CalmstreamCheckpointsStalled",
}  # fmt: skip
"""Alerts that look back: those of an earlier situation may still fire."""


@dataclass(frozen=True)
class Expected:
    """What each observer should say; an observer without expectation is not asked.

    Attributes:
        status: plan's name, and a pattern of "health: reason".
        ready: process, and a pattern of "code body".
        panel: title and index of the query, and a condition on its values.
        alert: name; "none" where no alert may fire in the meantime.
        role: the only role whose values of the panel and whose alert count; by default all.
    """

    status: tuple[str, str] = ("", "")
    ready: tuple[str, str] = ("", "")
    panel: tuple[str, int, Callable[[Sequence[float]], bool]] | None = None
    alert: str = ""
    role: str = ""


@dataclass
class Fleet:
    """The processes, by name: each keeps its port over restarts, which Prometheus knows.

    Attributes:
        database: what a sink and a server of results need; without it there are none.
        session: seconds until a process counts as dead.
    """

    directory: Path
    stack: ExitStack
    database: PostgresServer | None = None
    plans: dict[str, Plan] = field(default_factory=dict)
    processes: dict[str, Process] = field(default_factory=dict)
    ports: dict[str, int] = field(default_factory=dict)
    session: int = 20

    def __post_init__(self) -> None:
        self.namespace = f"fleet-{uuid.uuid4().hex[:8]}"
        self.kafka = self.stack.enter_context(NativeKafka())
        self.broker = connect(self.kafka.bootstrap)
        self.sink = self.broker.sink()
        self.folder, self.offered = self.directory / "plans", self.directory / "offered"
        self.disk = self.directory / "disk"
        for path in (self.folder, self.offered, self.disk):
            path.mkdir()
        self.has_disk = self.mounted()
        self.where = ("--bootstrap", self.kafka.bootstrap, "--namespace", self.namespace)
        roots = self.directory / "roots.pub"
        roots.write_text(Operator().root + "\n")
        self.trusted = ("--roots", roots, "--allow-unsigned")
        names = ["tally", "second", "publisher", "gateway"]
        names += [] if self.database is None else ["sink", "serve"]
        self.ports = {name: free_port() for name in names}
        self.http = free_port()
        watched = [port for name, port in self.ports.items() if name != "second"]
        self.prometheus = self.stack.enter_context(
            PrometheusServer(self.directory / "prometheus", {"calmstream": watched}, at_once)
        )
        for name in ("alpha", "beta"):
            self.put(self.plan(name))
        for name in names:
            if name != "second":
                self.start(name)
        self.recover()

    def plan(self, name: str, *, start: int | None = None, windows: int = 720) -> Plan:
        begin = int(time.time()) // WINDOW * WINDOW if start is None else start
        return pair_plan(name, begin, WINDOW, windows, grace=GRACE, users=20)

    def put(self, plan: Plan, document: bytes = b"") -> None:
        """Add a plan to the folders of the services and of the gateway."""
        self.plans[plan.name] = plan
        for folder in (self.folder, self.offered):
            (folder / f"{plan.name}.json").write_bytes(document or plan.to_bytes())

    def serve(self, plan: Plan) -> None:
        """Add a plan, and wait until it is well."""
        self.put(plan)
        until("it is served", lambda: self.status()[plan.name].startswith("well"), SECONDS)

    def drop(self, name: str) -> None:
        for folder in (self.folder, self.offered):
            (folder / f"{name}.json").unlink(missing_ok=True)

    def names(self, plan: str) -> TopicNames:
        return TopicNames.of(self.plans[plan], self.namespace)

    def start(self, name: str, **settings: str) -> None:
        folder = ("--plans", self.folder, *self.trusted, *self.where)
        database = "" if self.database is None else self.database.address("postgres")
        words: Mapping[str, tuple[object, ...]] = {
            "tally": ("consume", *folder, "--role", "tally", "--create-topics"),
            "publisher": ("consume", *folder, "--role", "publish", "--create-topics"),
            "gateway": (
                *("gateway", "--plans", self.offered, *self.trusted, *self.where),
                *("--spool", self.disk / "spool", "--port", self.http, "--min-batch", 1),
            ),
            "sink": ("sink", *folder, "--to", database),
            "serve": ("serve", *folder, "--port", free_port()),
        }
        given = {"PGPASSWORD": PASSWORD, "CALMSTREAM_SESSION_SECONDS": str(self.session)}
        given |= settings
        log = self.directory / f"{name}.log"
        chosen = words["tally" if name == "second" else name]
        process = Process(log, *chosen, settings=given, port=self.ports[name])
        self.stack.callback(process.kill)
        self.processes[name] = process

    def send(self, plan: str, count: int = 1, *, ahead: int = 0) -> None:
        one, sent = self.plans[plan], []
        period = one.window_at(int(time.time() * 1000)) + ahead
        for _ in range(count):
            for group in range(len(one.groups)):
                body = encode_batch(one, group, Batch(period, 8, None, {"v": np.arange(8) % 4}))
                topic = self.names(plan).reports(group)
                sent.append(self.sink.send(topic, uuid.uuid4().bytes, body))
        for delivery in sent:
            delivery.wait(60)

    def status(self) -> dict[str, str]:
        """Return what the command says of each plan or file; one line for all if it fails."""
        done = run("status", "--plans", self.folder, *self.trusted, *self.where, "--json")
        found = [json.loads(line) for line in done.stdout.splitlines()]
        said = {
            one.get("plan") or one["file"]: f"{one['health']}: {one['reason']} "
            f"(rejected {one.get('rejected', 0)})"
            for one in found
        }
        return said or {"": done.stderr.strip()}

    def says(self, expected: Expected, observer: str) -> bool:
        if observer == "status":
            name, pattern = expected.status
            return bool(re.search(pattern, self.status().get(name, "")))
        if observer == "readyz":
            name, pattern = expected.ready
            code, body = self.processes[name].page("/readyz", seconds=2.0)
            return bool(re.search(pattern, f"{code} {body}", re.DOTALL))
        if observer == "panel":
            assert expected.panel is not None
            title, number, condition = expected.panel
            (found,) = (p for (board, _), p in panels().items()
                        if board[:2] in ("se", "da") and p["title"] == title)  # fmt: skip
            query = found["targets"][number]["expr"].replace("$plan", ".*")
            if expected.role:
                query = f'{query} and on (role) calmstream_ready{{role="{expected.role}"}}'
            return condition(self.prometheus.values(query.replace("$__rate_interval", "1m")))
        if expected.role:
            labels = f'alertname="{expected.alert}", role="{expected.role}", alertstate="firing"'
            return bool(self.prometheus.values(f"ALERTS{{{labels}}}"))
        return expected.alert == "none" or expected.alert in self.prometheus.firing()

    def alarms(self) -> set[str]:
        severe = {n for n, a in alerts().items() if a["labels"]["severity"] not in CALM}
        return self.prometheus.firing() & severe - OF_DATA - LASTING

    def well(self) -> bool:
        """Return whether every process and plan is well; plans that went are not asked."""
        pages = {n: p.page("/readyz", seconds=2.0) for n, p in self.processes.items()}
        self.unwell = {f"{n}: {page}" for n, page in pages.items() if page[0] != 200}
        if self.unwell:
            return False
        self.unwell = self.alarms()
        said = self.status()
        self.unwell |= {f"{n}: {s}" for n, s in said.items() if n in ("", "alpha", "beta")
                        and not s.startswith("well")}  # fmt: skip
        return not self.unwell

    def recover(self) -> None:
        try:
            until("all is well", self.well, 2 * SECONDS, pause=0.5)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.unwell}") from None

    def fill_disk(self) -> None:
        with (self.disk / "filler").open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(1 << 12))
            except OSError:
                pass

    def post(self) -> None:
        alpha = self.plans["alpha"]
        post_report(self.http, alpha.digest, line(alpha, 0, uuid.uuid4().hex), 10)

    def mounted(self) -> bool:
        """Give the gateway a small disk of its own; return whether that is possible here."""
        given = ["mount", "-t", "tmpfs", "-o", "size=24m", "none", str(self.disk)]
        if shutil.which("mount") is None or subprocess.run(given, check=False).returncode:
            return False
        self.stack.callback(subprocess.run, ["umount", "--lazy", str(self.disk)], check=False)
        return True


def measured(fleet: Fleet, expected: Expected, cause: Callable[[], None]) -> dict[str, float]:
    """Cause a situation; return the seconds from then on until each observer says it.

    Raises:
        AssertionError: an observer does not, within `SECONDS`.
    """
    # The status last: it is a process, which takes seconds.
    asked = [name for name, given in (("readyz", expected.ready[0]), ("panel", expected.panel),
             ("alert", expected.alert), ("status", expected.status[1])) if given]  # fmt: skip
    cause()
    began, seconds, alarms = time.monotonic(), dict[str, float](), set[str]()
    while missing := [name for name in asked if name not in seconds]:
        for observer in missing:
            try:
                said = fleet.says(expected, observer)
            except (AssertionError, CalmstreamError, json.JSONDecodeError):
                said = False
            if said:
                seconds[observer] = time.monotonic() - began
        alarms |= fleet.alarms()
        assert time.monotonic() - began < SECONDS, f"silent: {missing}; {fleet.status()}; {alarms}"
        time.sleep(0.3)
    if expected.alert == "none":
        until("two windows pass", lambda: time.monotonic() - began > 2.5 * WINDOW, SECONDS)
        # A condition that ends sooner than the shortest pending time raises no alert.
        until("no alert stays", lambda: not fleet.alarms(), 60.0)
    return seconds
