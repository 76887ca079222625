"""Run the procedures of the runbook: its own commands, on real brokers, and count what is lost."""

from __future__ import annotations

import http.client
import json
import os
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from calmstream import MemoryStore, Policy, Reporter
from calmstream.broker.kafka import connect
from calmstream.broker.names import TopicNames
from calmstream.consumer.subscribe.subscribe import plan_names
from calmstream.estimators.plan import Plan
from calmstream.estimators.wire.batch import encode_batch
from calmstream.estimators.wire.report import decode_report
from calmstream.producer.device.read_plan import read_signed_plan
from tests.brokers.native import NativeKafka
from tests.support.docs import ROOT, blocks, shims
from tests.support.ports import free_port
from tests.support.service.processes import Process, until

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(1200)]

RUNBOOK = ROOT / "deploy" / "RUNBOOK.md"
SECONDS = 150.0
DOMAIN = [
    {"name": "region", "labels": ["EU", "US"]},
    {"name": "theme", "labels": ["dark", "light"]},
]
QUICK = {
    "--window 1d": "--window 15s --lifetime 1h --grace 5s --allow-loss 120",
    "w-event:30": "w-event:2",
    "--until 2026-12-31": "--until 2035-12-31",
}
"""A test cannot wait for a day, and half of its devices report in every window."""

COUNTING = {
    "calmstream consume": "timeout --preserve-status 90 calmstream consume --http-port 0",
    "--grace 172800": "--grace 600",
}
"""A person stops a second count; a window of a test is too short for a grace of days."""

KEYS = """
calmstream keys new --out root && cp root.pub roots.pub
calmstream keys new --out signing
calmstream keys certify --root root --key signing.pub --from 2026-01-01 --until 2035-12-31 \
    --owner telemetry@example.org --out signing.certificate
"""


def say(text: str) -> None:
    """Print what a procedure takes, for ``pytest -s``."""
    print(text, flush=True)  # noqa: T201 - the result of a measurement


class Place:
    """A folder as the runbook describes it, services and a gateway that work from it."""

    def __init__(self, bootstrap: str, folder: Path, stack: ExitStack) -> None:
        self.bootstrap, self.folder, self.stack = bootstrap, folder, stack
        self.namespace = f"proc-{secrets.token_hex(4)}"
        for name in ("services", "gateway"):
            (folder / name).mkdir()
        (folder / "domain.json").write_text(json.dumps(DOMAIN))
        (folder / "calmstream.toml").write_text(f'namespace = "{self.namespace}"\n')
        path = f"{shims(folder)}:{os.environ['PATH']}"
        self.environment = {"PATH": path, "PYTHONPATH": str(ROOT)}
        self.shell(KEYS)
        self.acknowledged: dict[str, int] = {}
        where = ("--bootstrap", bootstrap, "--namespace", self.namespace)
        roots = ("--roots", folder / "roots.pub")
        settings = {"CALMSTREAM_CHECKPOINT_SECONDS": "1", "CALMSTREAM_TEST_CHANGES": "false"}
        self.service = self.process(
            "service", "consume", "--plans", folder / "services", *roots, *where, **settings
        )
        self.start_gateway()

    def process(self, name: str, *words: object, **settings: str) -> Process:
        one = Process(self.folder / f"{name}.log", *words, settings=settings)
        self.stack.callback(one.kill)
        return one

    def start_gateway(self) -> None:
        self.port = free_port()
        self.gateway = self.process(
            *("gateway", "gateway", "--plans", self.folder / "gateway"),
            *("--roots", self.folder / "roots.pub", "--spool", self.folder / "spool"),
            *("--port", self.port, "--min-batch", 1),
            *("--bootstrap", self.bootstrap, "--namespace", self.namespace),
        )

    def shell(self, script: str) -> str:
        """Run a script in the folder; return what it printed."""
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=self.folder,
            env=os.environ | self.environment | {"CALMSTREAM_BOOTSTRAP": self.bootstrap},
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-1500:] + done.stderr[-2500:]
        return done.stdout

    def follow(self, name: str, changes: dict[str, str] | None = None) -> str:
        """Run the commands of a procedure, and print how many they are and what they take."""
        (script,) = blocks(RUNBOOK, "test", name)
        for old, new in (QUICK | (changes or {})).items():
            script = script.replace(old, new)
        began = time.monotonic()
        said = self.shell(script)
        commands = sum(1 for x in script.splitlines() if x and x[0] not in " #}d")
        say(f"{name}: {commands} commands, {time.monotonic() - began:.0f} s")
        return said

    def plan(self, name: str = "settings") -> Plan:
        return read_signed_plan((self.folder / f"{name}.json").read_bytes(), None).plan

    def names(self, name: str = "settings") -> TopicNames:
        return plan_names(self.plan(name), self.namespace)

    def device(self, name: str) -> bytes:
        """Return the report of a new device whose window is the present one."""
        raw = (self.folder / "gateway" / f"{name}.json").read_bytes()
        policy = Policy(roots=(self.folder / "roots.pub").read_text().split())
        while True:
            reporter = Reporter(raw, MemoryStore(), policy=policy)
            if (report := reporter.report({"region": "EU", "theme": "dark"})) is not None:
                return report.encode(reporter.plan)

    def report(self, wanted: int, name: str = "settings") -> int:
        """Let new devices report until one is refused; return how many the gateway acknowledged."""
        taken = 0
        while taken < wanted and self.post(
            name, f'{{"id":"{secrets.token_hex(16)}","report":{self.device(name).decode()}}}'
        ):
            taken += 1
        self.acknowledged[name] = self.acknowledged.get(name, 0) + taken
        return taken

    def post(self, name: str, body: str) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        path = f"/v1/plans/{self.plan(name).digest}/reports"
        connection.request("POST", path, body, {"content-type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        connection.close()
        return answer.status == 202

    def counted(self, name: str = "settings", output: str = "") -> int:
        more = f" --output-namespace {output}" if output else ""
        said = self.shell(f"calmstream inspect --plan {name}.json --json{more} || true")
        found = json.loads(said)["partitions"] if said else []
        return sum(one["reports"] for one in found)

    def health(self, name: str = "settings") -> str:
        said = self.shell(f"calmstream status --plan {name}.json --json || true")
        return str(json.loads(said)["health"]) if said else ""

    def added(self) -> None:
        """Follow the first procedure, until the plan is served."""
        self.follow("add")
        until("it is offered", lambda: self.report(1) == 1, SECONDS, pause=1.0)
        until("it is well", lambda: self.health() == "well", SECONDS, pause=1.0)

    def exact(self, name: str = "settings") -> None:
        until("all is counted", lambda: self.counted(name) == self.acknowledged[name], SECONDS, 1.0)
        say(f"{name}: {self.acknowledged[name]} acknowledged, none lost")


@pytest.fixture
def place(kafka_bootstrap: str, tmp_path: Path) -> Iterator[Place]:
    with ExitStack() as stack:
        yield Place(kafka_bootstrap, tmp_path, stack)


def test_a_plan_from_its_beginning_to_its_retirement(place: Place) -> None:
    place.added()
    place.report(20)
    place.follow("begin", {"localhost:9092": place.bootstrap})
    place.exact()
    place.follow("rotate")
    old = read_signed_plan((place.folder / "settings.json").read_bytes(), None)
    new = read_signed_plan((place.folder / "gateway" / "settings.json").read_bytes(), None)
    assert old.plan == new.plan
    assert old.statement != new.statement, "signed by another key"
    place.report(20)
    place.exact()
    place.follow("successor")
    until("the successor is offered", lambda: place.report(1, "settings-2") == 1, SECONDS, 1.0)
    until("the old one is not", lambda: not place.post("settings", "{}"), SECONDS, 1.0)
    place.report(20, "settings-2")
    place.exact("settings-2")
    place.exact()
    waiting = "calmstream_gateway_reports_waiting"
    until("the gateway has sent all", lambda: place.gateway.metric(waiting) == 0, SECONDS)
    place.follow("retire", {"calmstream retire": "calmstream retire --yes"})
    until("it is retired", lambda: place.health() == "retired", SECONDS, 1.0)
    table = place.shell("calmstream export --plan settings.json --kind total")
    assert table.count("\n") > 4, "the results stay"
    until("the other is well", lambda: place.health("settings-2") == "well", SECONDS, 1.0)


def test_dead_letters_are_read_and_counted_after_all(place: Place) -> None:
    place.added()
    plan, broker = place.plan(), connect(place.bootstrap)
    group, old = decode_report(plan, place.device("settings"))
    time.sleep(plan.window + plan.grace + 2)  # until the log's clock has passed them
    place.report(5)
    topic, late = place.names().reports(group), encode_batch(plan, group, old)
    sink = broker.sink()
    for key, body in ((secrets.token_bytes(16), late), (b"k" * 16, b"?")):
        sink.send(topic, key, body, partition=0).wait(60)
    broker.close()

    def read() -> bool:
        said = place.shell("calmstream dead-letters --plan settings.json")
        return "late" in said and "undecodable" in said and "--grace" in said

    until("both are listed", read, SECONDS, pause=1.0)
    time.sleep(plan.window + plan.grace + 2)
    place.follow("dead letters", COUNTING)
    assert place.counted(output="corrected") == place.acknowledged["settings"] + 1


def test_a_gateway_goes_on_with_an_empty_spool(place: Place) -> None:
    place.added()
    place.report(20)
    place.exact()
    place.gateway.kill()
    shutil.rmtree(place.folder / "spool")
    began = time.monotonic()
    place.start_gateway()  # as the runbook says, on a port of the test
    until("it takes reports", lambda: place.gateway.page("/readyz")[0] == 200, SECONDS)
    say(f"spool: 1 command, {time.monotonic() - began:.0f} s")
    place.report(20)
    place.exact()


@pytest.mark.parametrize("lost", ["state", "snapshots", "counts", "dead_letters"])
def test_a_lost_topic_is_made_again_and_no_report_is_lost(place: Place, lost: str) -> None:
    place.added()
    place.report(20)
    place.exact()
    broker, name = connect(place.bootstrap), getattr(place.names(), lost)
    broker.topics().delete([name])
    began = time.monotonic()
    if lost in ("state", "snapshots"):
        until("status says so", lambda: place.health() == "fault", SECONDS, 1.0)
    place.shell("calmstream topics --plan settings.json")
    until("it is well", lambda: place.health() == "well", 2 * SECONDS, 1.0)
    place.exact()
    if lost == "snapshots":
        place.follow("again", COUNTING)
        table = place.shell("calmstream export --plan settings.json --output-namespace again")
        assert table.count("\n") > 1, "there are finals again"
    say(f"lost {lost}: 1 command, {time.monotonic() - began:.0f} s until all is well")
    broker.close()


def test_after_a_lost_reports_topic_counting_goes_on_in_another_namespace(place: Place) -> None:
    place.added()
    place.report(20)
    place.exact()
    broker = connect(place.bootstrap)
    broker.topics().delete(place.names().all_reports)
    broker.close()
    until("status says so", lambda: place.health() == "fault", SECONDS, 1.0)
    began = time.monotonic()
    output = f"--output-namespace {place.namespace}-2"
    place.shell("calmstream topics --plan settings.json")
    place.shell(f"calmstream topics --plan settings.json {output}")
    place.service.kill()
    place.gateway.kill()
    place.start_gateway()
    place.gateway.ready(SECONDS)
    where = ("--bootstrap", place.bootstrap, "--namespace", place.namespace)
    plan = ("--plan", place.folder / "settings.json")
    place.process("again", "consume", *plan, *where, *output.split())
    new = place.report(20)
    until("they are counted", lambda: place.counted(output=output.split()[1]) == new, SECONDS, 1.0)
    say(f"lost reports: 4 commands, {time.monotonic() - began:.0f} s, none of {new} new ones lost")


def test_a_broker_with_an_empty_disk_gets_its_partitions_again(tmp_path: Path) -> None:
    two = {"default.replication.factor": "2", "offsets.topic.replication.factor": "2"}
    with ExitStack() as stack:
        one = stack.enter_context(NativeKafka(properties=two))
        other = stack.enter_context(NativeKafka(properties=two, joins=one))
        place = Place(f"{one.bootstrap},{other.bootstrap}", tmp_path, stack)
        place.added()
        place.report(20)
        other.kill()
        shutil.rmtree(other.data)
        began = time.monotonic()
        other.start()
        place.report(20)
        place.exact()
        say(f"a broker's disk: 0 commands, {time.monotonic() - began:.0f} s")


def test_a_plan_moves_to_another_cluster(place: Place) -> None:
    place.added()
    place.report(20)
    place.exact()
    finals = place.plan().window_start(0) // 1000 + 2 * place.plan().window
    place.follow("successor")
    with NativeKafka() as kafka:
        (script,) = blocks(RUNBOOK, "test", "move")
        port, http_port = free_port(), free_port()
        script = script.replace("new-cluster:9092", kafka.bootstrap).replace(
            "--spool spool/", f"--spool spool-2/ --port {port} --http-port {free_port()}"
        )
        script = script.replace("consume ", f"consume --http-port {http_port} ")
        child = subprocess.Popen(
            ["bash", "-c", script + "\nwait"],
            cwd=place.folder,
            env=os.environ | place.environment,
            start_new_session=True,
        )
        try:
            place.port, place.bootstrap = port, kafka.bootstrap

            def taken() -> bool:
                try:
                    return place.report(1, "settings-2") == 1
                except OSError:
                    return False

            until("the new cluster takes reports", taken, SECONDS, 1.0)
            place.report(20, "settings-2")
            place.exact("settings-2")
        finally:
            os.killpg(child.pid, signal.SIGTERM)
            child.wait(60)
    place.bootstrap = place.service.child.args[  # type: ignore[index]
        place.service.child.args.index("--bootstrap") + 1  # type: ignore[union-attr]
    ]
    until("two windows are final", lambda: time.time() > finals + 30, SECONDS, 1.0)
    place.follow("take along", {"localhost:9092": place.bootstrap})
    assert (place.folder / "old.parquet").stat().st_size > 0
