"""A folder as the runbook describes it, and services that work from it on a real broker."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from calmstream import MemoryStore, Policy, Reporter
from calmstream.broker.kafka import connect
from calmstream.broker.names import TopicNames
from calmstream.common.clock import SystemClock
from calmstream.common.errors import FatalError
from calmstream.consumer.operations.inspect import Inspection, inspect
from calmstream.estimators.plan import Plan
from calmstream.producer.device.read_plan import read_signed_plan
from tests.support.docs import ROOT, blocks, shims
from tests.support.ports import free_port
from tests.support.runs import ran
from tests.support.service.processes import Process, post_report, until

RUNBOOK = ROOT / "deploy" / "RUNBOOK.md"
SECONDS = 150.0
DOMAIN = [
    {"name": "region", "labels": ["EU", "US"]},
    {"name": "theme", "labels": ["dark", "light"]},
]
QUICK = {
    "--window 1d": "--window 10s --lifetime 1h --grace 10s --allow-loss 180 --method calm"
    " --partitions 2",
    "w-event:30": "w-event:2",
    "--until 2027-10-31": "--until 2035-12-31",
}
"""A test cannot wait for a day; half of its devices report in every window; estimates are quick."""

KEYS = """
calmstream keys new --out root && cp root.pub roots.pub
calmstream keys new --out signing
calmstream keys certify --root root --key signing.pub --from 2026-01-01 --until 2035-12-31 \
    --owner telemetry@example.org --out signing.certificate
"""
FAST = {
    "CALMSTREAM_CHECKPOINT_SECONDS": "1",
    "CALMSTREAM_REFRESH_SECONDS": "60",
    "CALMSTREAM_TEST_CHANGES": "false",
}


class Place:
    """A folder of plans and keys, processes that serve it, and devices that report.

    Attributes:
        program: an installed command of another version; empty for the present tree.
        acknowledged: by plan, how many reports the gateway has acknowledged.
        commands: how many commands of the page ran since the last line of the table.
    """

    def __init__(
        self, bootstrap: str, folder: Path, stack: ExitStack, program: Path | None = None
    ) -> None:
        self.bootstrap, self.folder, self.stack, self.program = bootstrap, folder, stack, program
        self.namespace = f"proc-{secrets.token_hex(4)}"
        for name in ("services", "gateway"):
            (folder / name).mkdir(parents=True)
        (folder / "domain.json").write_text(json.dumps(DOMAIN))
        (folder / "calmstream.toml").write_text(f'namespace = "{self.namespace}"\n')
        first = shims(folder) if program is None else program.parent
        self.environment = {"PATH": f"{first}:{os.environ['PATH']}"}
        self.environment["PYTHONPATH"] = str(ROOT) if program is None else ""
        self.shell(KEYS)
        self.acknowledged: Counter[str] = Counter()
        self.processes: dict[str, Process] = {}
        self.http, self.commands, self._began = free_port(), 0, time.monotonic()
        self.connect()

    def connect(self) -> None:
        self.broker = connect(self.bootstrap)
        self.stack.callback(self.broker.close)

    def start(self, name: str, *words: object, **settings: str) -> Process:
        """Start a process of a folder of plans; a former one of this name keeps its port."""
        folder = self.folder / ("gateway" if words[0] == "gateway" else "services")
        port = self.processes[name].port if name in self.processes else 0
        plans = () if "--plan" in words else ("--plans", folder)
        if plans:
            plans = (*plans, "--roots", self.folder / "roots.pub")
        where = ("--bootstrap", self.bootstrap, "--namespace", self.namespace)
        one = Process(self.folder / f"{name}.log", *words, *plans, *where,
                      settings=FAST | settings, port=port, program=self.program)  # fmt: skip
        self.stack.callback(one.kill)
        self.processes[name] = one
        return one

    def start_gateway(self) -> Process:
        spool = ("--spool", self.folder / "spool", "--port", self.http, "--min-batch", 1)
        return self.start("gateway", "gateway", *spool)

    def variables(self) -> dict[str, str]:
        return os.environ | self.environment | {"CALMSTREAM_BOOTSTRAP": self.bootstrap}

    def shell(self, script: str) -> str:
        bash = ("bash", "-euo", "pipefail", "-c", script)
        return ran(*bash, seconds=400, cwd=self.folder, env=self.variables()).stdout

    def script(self, name: str, plan: str = "settings", **changes: str) -> str:
        """Return the commands of a procedure for a plan, and count them."""
        (script,) = blocks(RUNBOOK, "test", name)
        own = {"plan.json": f"{plan}.plan.json", "plan-2.json": f"{plan}-2.plan.json"}
        for old, new in (QUICK | {"settings": plan} | own | changes).items():
            script = script.replace(old, new)
        self.commands += sum(1 for x in script.splitlines() if x and x[0] not in " #}d")
        return script

    def follow(self, name: str, plan: str = "settings", **changes: str) -> str:
        return self.shell(self.script(name, plan, **changes))

    @contextmanager
    def running(self, script: str) -> Iterator[None]:
        """Run a script whose last commands go on until they are stopped."""
        child = subprocess.Popen(
            ["bash", "-euo", "pipefail", "-c", script + "\nwait"],
            cwd=self.folder,
            env=self.variables() | FAST,
            start_new_session=True,
        )
        try:
            yield
        finally:
            os.killpg(child.pid, signal.SIGTERM)
            child.wait(60)

    def step(self, script: str) -> None:
        self.commands += 1
        self.shell(script)

    def begin(self) -> None:
        self.commands, self._began = 0, time.monotonic()

    def took(self, procedure: str, *plans: str) -> None:
        lost = sum(self.acknowledged[plan] - self.counted(plan) for plan in plans)
        seconds = time.monotonic() - self._began
        print(f"| {procedure} | {self.commands} | {seconds:.0f} | {lost} |",  # noqa: T201
              file=sys.stderr, flush=True)  # fmt: skip
        assert not lost
        self.begin()

    def plan(self, name: str = "settings") -> Plan:
        return read_signed_plan((self.folder / f"{name}.json").read_bytes(), None).plan

    def names(self, name: str = "settings") -> TopicNames:
        return TopicNames.of(self.plan(name), self.namespace)

    def device(self, name: str = "settings") -> bytes:
        """Return the report of a new device whose window is the present one."""
        offered = self.folder / "gateway" / f"{name}.json"
        raw = (offered if offered.exists() else self.folder / offered.name).read_bytes()
        policy = Policy(roots=(self.folder / "roots.pub").read_text().split())
        while True:
            reporter = Reporter(raw, MemoryStore(), policy=policy)
            if (report := reporter.report({"region": "EU", "theme": "dark"})) is not None:
                return report.encode(reporter.plan)

    def report(self, wanted: int, name: str = "settings") -> int:
        """Let new devices report until one is refused; return how many the gateway acknowledged."""
        taken = 0
        while taken < wanted and self.post(name, self.body(name)) == 202:
            taken += 1
        self.acknowledged[name] += taken
        return taken

    def body(self, name: str = "settings") -> str:
        return f'{{"id":"{secrets.token_hex(16)}","report":{self.device(name).decode()}}}'

    def post(self, name: str, body: str) -> int:
        """Return the gateway's status; 0 if it does not answer."""
        return post_report(self.http, self.plan(name).digest, body)[0]

    def look(self, name: str = "settings", output: str = "") -> Inspection:
        names = TopicNames.of(self.plan(name), self.namespace, output)
        return inspect(self.plan(name), self.broker, names, SystemClock())

    def counted(self, name: str = "settings", output: str = "") -> int:
        """Return how many reports are counted; -1 before the topics are there."""
        try:
            return sum(one.reports for one in self.look(name, output).partitions)
        except FatalError:
            return -1

    def status(self) -> dict[str, str]:
        command = "calmstream status --plans services/ --roots roots.pub --json || true"
        found = [json.loads(line) for line in self.shell(command).splitlines()]
        return {o.get("plan") or o["file"]: f"{o['health']}: {o['reason']}" for o in found}

    def healthy(self, names: Collection[str], health: str = "well") -> None:
        deadline = time.monotonic() + 2 * SECONDS
        while {(said := self.status()).get(name, "").split(":")[0] for name in names} != {health}:
            assert time.monotonic() < deadline, said

    def added(self, *names: str) -> None:
        """Follow the first procedure for each plan, until it is served."""
        for name in names:
            self.follow("add", name)
        for name in names:
            until("it is offered", lambda name=name: self.report(1, name) == 1, SECONDS, 0.5)
        self.healthy(names)

    def drop(self, *names: str) -> None:
        for name in names:
            for folder in ("services", "gateway"):
                (self.folder / folder / f"{name}.json").unlink(missing_ok=True)

    def exact(self, *names: str) -> None:
        for name in names:
            wanted = self.acknowledged[name]
            until("all is counted", lambda n=name, w=wanted: self.counted(n) >= w, SECONDS, 0.5)
            assert self.counted(name) == self.acknowledged[name]
