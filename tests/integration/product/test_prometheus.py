"""With a real Prometheus every panel of the dashboards shows data, and faults raise alerts."""

from __future__ import annotations

import secrets
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from calmstream.broker.kafka import connect
from calmstream.broker.names import TopicNames
from calmstream.broker.transport import Sink
from calmstream.estimators.plan import Plan
from calmstream.estimators.wire.batch import Batch, encode_batch
from tests.support.deploy import panels
from tests.support.gateway.running import line
from tests.support.ports import free_port
from tests.support.publisher import published_plan
from tests.support.service.processes import Process, post_report, run, until
from tests.support.service.prometheus_server import RANGE, PrometheusServer

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(900)]

WINDOW, RATE = 5, 600
SECONDS = 150.0  # longest wait for an alert; a process that is starved answers no scrape meanwhile

PRODUCING_SECONDS = 400
CAUSE_SECONDS = 2.0
# One honest final of 10,000 looks suspicious by chance.
BY_CHANCE = {"CalmstreamPoisoningSuspected"}


def short_plan() -> Plan:
    return published_plan(
        name=f"watched-{secrets.token_hex(3)}",
        start=int(time.time()) + 3,
        window=WINDOW,
        windows=2000,
        epsilon="3",
        grace=1,
        skew=1,
        users=RATE * WINDOW,
    )


def write_records(path: Path, plan: Plan, n: int) -> Path:
    rows = "\n".join(f"{i & 1},{i >> 1 & 1},{i >> 2 & 1}" for i in range(n))
    path.write_text(f"{','.join(plan.domain.names)}\n{rows}\n")
    return path


class Scene:
    """The processes of one small deployment, and Prometheus beside them."""

    def __init__(self, bootstrap: str, directory: Path, stack: ExitStack) -> None:
        self.plan = short_plan()
        self.bootstrap = bootstrap
        self._directory = directory
        self._stack = stack
        path = directory / "plan.json"
        path.write_bytes(self.plan.to_bytes())
        self.where = ("--plan", path, "--bootstrap", bootstrap)
        made = run("topics", *self.where)
        assert made.returncode == 0, made.stderr
        self.tallies = [self.consume("tally", "a"), self.consume("tally", "b")]
        self.publisher = self.consume("publish", "p", "--refresh-seconds", "1")
        self.gateway = self._gateway()
        port, central = free_port(), free_port()
        self.readers = (self._server(), self._sink())
        processes = (*self.tallies, self.publisher, self.gateway, *self.readers)
        service = [process.port for process in processes]
        self.prometheus = stack.enter_context(
            PrometheusServer(
                directory / "prometheus",
                {"calmstream": service, "producers": [port], "central": [central]},
            )
        )
        records = write_records(directory / "records.csv", self.plan, PRODUCING_SECONDS * RATE)
        rate = ("--records", records, "--rate", RATE, "--http-port", port)
        self.producer = self._start("producer", "produce", *self.where, *rate)
        # After the producer, because alerts of the first window need its reports.
        self._aggregator(central)

    def consume(self, role: str, name: str, *options: object) -> Process:
        options = ("--role", role, "--checkpoint-seconds", "1", *options)
        return self._start(name, "consume", *self.where, *options)

    def _gateway(self) -> Process:
        plans = self._directory / "plans"
        plans.mkdir()
        (plans / "plan.json").write_bytes(self.plan.to_bytes())
        self._reports = free_port()
        where = ("--bootstrap", self.bootstrap, "--port", self._reports, "--allow-unsigned")
        spool = self._directory / "spool"
        return self._start("gateway", "gateway", "--plans", plans, "--spool", spool, *where)

    def _server(self) -> Process:
        where = ("--bootstrap", self.bootstrap, "--port", free_port(), "--allow-unsigned")
        return self._start("serve", "serve", "--plans", self._directory / "plans", *where)

    def _sink(self) -> Process:
        target = f"parquet:{self._directory / 'results'}"
        return self._start("sink", "sink", *self.where, "--to", target)

    def report(self) -> None:
        body = line(self.plan, 0, secrets.token_hex(16))
        post_report(self._reports, self.plan.digest, body, 10)

    def _aggregator(self, port: int) -> None:
        path, account = self._directory / "central.json", self._directory / "account.json"
        start = ("--start", self.plan.start, "--window", f"{WINDOW}s", "--lifetime", "1h")
        table = self._directory / "raw.csv"
        table.write_text("a,b\n0,0\n")
        plan = ("central", "plan", table, "--epsilon", "1")
        where = ("--plan", path, "--bootstrap", self.bootstrap)
        for arguments in (
            (*plan, "--k", "1", *start, "--name", self.plan.name, "--out", path),
            ("central", "account", "--plan", path, "--account", account),
            ("central", "topics", *where),
        ):
            made = run(*arguments)
            assert made.returncode == 0, made.stderr
        serve = ("--account", account, "--http-port", port)
        self._start("central", "central", "aggregate", *where, *serve)

    def _start(self, name: str, *arguments: object) -> Process:
        process = Process(self._directory / f"{name}.log", *arguments)
        self._stack.callback(process.kill)
        return process

    def expect(self, *alerts: str, cause: Callable[[], None] = lambda: None) -> None:
        """Wait until each alert has fired; repeat the cause of those that look back in time."""
        firing: set[str] = set()
        due = 0.0

        def all_seen() -> bool:
            nonlocal due
            if time.monotonic() >= due:
                cause()
                due = time.monotonic() + CAUSE_SECONDS
            firing.update(self.prometheus.firing())
            return firing >= set(alerts)

        try:
            until(f"{alerts} fire", all_seen, SECONDS, pause=0.5)
        except AssertionError:
            missing = set(alerts) - firing
            logs = "\n".join(p.tail()[-400:] for p in (*self.tallies, self.publisher))
            raise AssertionError(f"silent: {missing}; firing: {firing}\n{logs}") from None


@pytest.fixture
def scene(kafka_bootstrap: str, tmp_path: Path) -> Iterator[Scene]:
    with ExitStack() as stack:
        yield Scene(kafka_bootstrap, tmp_path, stack)


def test_panels_show_and_alerts_fire(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    check_the_healthy_service(scene)
    check_bad_input_and_silence(scene)
    check_a_stopped_and_a_slow_worker(scene, monkeypatch)
    check_a_stopped_publisher_and_the_end(scene)


def check_the_healthy_service(scene: Scene) -> None:
    """Check that every panel query returns numbers, and that no alert fires."""
    queries = {
        (*place, target["expr"]) for place, panel in panels().items() for target in panel["targets"]
    }
    waiting = set(queries)

    def all_show() -> bool:
        scene.report()
        for query in list(waiting):
            expression = query[-1].replace("$plan", ".*").replace("$__rate_interval", RANGE)
            if scene.prometheus.values(expression):
                waiting.discard(query)
        # The first windows are short of reports: devices began in the middle of one of them.
        whole = scene.prometheus.values(
            "max(calmstream_final_window_reports) > 0.8 * max(calmstream_plan_window_reports)"
        )
        return bool(whole) and not waiting and not scene.prometheus.firing() - BY_CHANCE

    try:
        until("every panel shows something, no alert fires", all_show, SECONDS)
    except AssertionError:
        raise AssertionError(
            f"no data: {waiting}; firing: {scene.prometheus.firing()}\n{scene.producer.tail()}\n"
            f"{scene.publisher.alive()} {scene.publisher.page('/readyz')}\n{scene.publisher.tail()}"
        ) from None
    assert len(queries) > 60
    until("no alert fires for two windows", calm_for(scene, 2 * WINDOW), SECONDS, pause=0.5)


def calm_for(scene: Scene, seconds: float) -> Callable[[], bool]:
    """Return a condition: no alert fired for so long. A starved process may raise one rightly."""
    since = time.monotonic()

    def calm() -> bool:
        nonlocal since
        if scene.prometheus.firing() - BY_CHANCE:
            since = time.monotonic()
        return time.monotonic() - since >= seconds

    return calm


def check_bad_input_and_silence(scene: Scene) -> None:
    """Send garbage, early reports and a forged group; then stop the producers."""
    broker = connect(scene.bootstrap)
    try:
        sink = broker.sink()
        scene.expect(
            "CalmstreamRejections",
            "CalmstreamForeignRecords",
            "CalmstreamClockSkew",
            "CalmstreamGroupShareOff",
            "CalmstreamPoisoningSuspected",
            cause=lambda: send_bad_input(scene.plan, sink),
        )
    finally:
        broker.close()
    scene.producer.signal(signal.SIGTERM)
    scene.expect("CalmstreamFewReports", "CalmstreamNoReports")
    assert scene.producer.wait(60) == 0


def send_bad_input(plan: Plan, sink: Sink) -> None:
    names: TopicNames = TopicNames.of(plan)
    period = plan.window_at(int(time.time() * 1000))
    # As many as a batch may hold, so that they are counted.
    n = plan.limits.batch_reports
    forged = Batch(period, n, None, {"v": np.zeros(n, np.int64)})
    early = replace(forged, period=period + 100)
    sent = [sink.send(names.reports(0), b"k" * 16, b"garbage") for _ in range(200)]
    bodies = [encode_batch(plan, 1, batch) for batch in (forged, forged, forged, early)]
    sent += [sink.send(names.reports(1), secrets.token_bytes(16), body) for body in bodies]
    for delivery in sent:
        delivery.wait(60)


def check_a_stopped_and_a_slow_worker(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run without a tally worker for four windows, then with one that is too slow."""
    for worker in scene.tallies:
        worker.signal(signal.SIGTERM)
    records = write_records(scene.publisher.log.parent / "backlog.csv", scene.plan, 45_000)
    backlog = run("produce", *scene.where, "--records", records, "--batch-size", 1, seconds=600)
    assert backlog.returncode == 0, backlog.stderr
    assert [worker.wait(60) for worker in scene.tallies] == [0, 0]
    scene.expect("CalmstreamPartitionsUnowned", "CalmstreamTargetDown", "CalmstreamFinalsLate")
    monkeypatch.setenv("CALMSTREAM_POLL_RECORDS", "1")
    # On the port that Prometheus knows.
    monkeypatch.setattr("tests.support.service.processes.free_port", lambda: scene.tallies[0].port)
    scene.tallies = [scene.consume("tally", "slow")]
    scene.expect("CalmstreamLag", "CalmstreamPartitionBehind")


def check_a_stopped_publisher_and_the_end(scene: Scene) -> None:
    scene.publisher.signal(signal.SIGTERM)
    scene.expect("CalmstreamPublisherAbsent")
    assert scene.publisher.wait(60) == 0
    for process in (scene.tallies[0], *scene.readers):
        process.kill()
    scene.expect("CalmstreamAbsent")
