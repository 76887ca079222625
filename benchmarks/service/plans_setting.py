"""What the benchmarks of many plans share: plans in a folder, processes, and what they cost."""

from __future__ import annotations

import json
import os
import tempfile
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from calmstream.broker.kafka import connect
from calmstream.broker.transport import Broker, Sink
from calmstream.consumer.subscribe.subscribe import plan_names
from calmstream.estimators.plan import Plan
from calmstream.estimators.wire.batch import Batch, encode_batch
from calmstream.topics import ensure_topics
from tests.support.plans import PAIR_GROUP, pair_plan
from tests.support.service.processes import Process, until

TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
SERVED_SECONDS = 600.0
REPORTS = 10


@dataclass(frozen=True)
class Plans:
    """The plans of a run, with their namespace."""

    namespace: str
    plans: tuple[Plan, ...]
    folder: Path

    def put(self, plan: Plan) -> None:
        """Put a plan into the folder."""
        path = self.folder / f"{plan.name}.json"
        path.with_suffix(".tmp").write_bytes(plan.to_bytes())
        path.with_suffix(".tmp").rename(path)

    def take(self, plan: Plan) -> None:
        """Take a plan from the folder."""
        (self.folder / f"{plan.name}.json").unlink()

    def put_all(self, stack: ExitStack, broker: Broker) -> None:
        """Create the topics of all plans, to be deleted at the end, and put the plans in."""
        for plan in self.plans:
            stack.callback(self.delete_topics, broker, plan)
            ensure_topics(broker, plan, plan_names(plan, self.namespace))
            self.put(plan)

    def delete_topics(self, broker: Broker, plan: Plan) -> None:
        """Delete the topics of a plan."""
        topics = broker.topics()
        try:
            topics.delete([spec.name for spec in plan_names(plan, self.namespace).specs(0)])
        finally:
            topics.close()


def plan_of(name: str, groups: int) -> Plan:
    """Return a plan over four binary attributes with windows of ten minutes."""
    start = int(time.time()) // 600 * 600 - 600
    of = {"purpose": "benchmark", "owner": "benchmark", "groups": (PAIR_GROUP,) * groups}
    return pair_plan(name, start, window=600, windows=144, **of)


class Sender(threading.Thread):
    """Sends a batch to group 0 of each plan, again and again.

    Attributes:
        acknowledged: for each round, the monotonic time at which all its batches were acknowledged.
    """

    def __init__(self, broker: Broker, plans: Plans, every_seconds: float) -> None:
        super().__init__(daemon=True)
        self.acknowledged: list[float] = []
        self._sink = broker.sink()
        self._plans = plans
        self._every = every_seconds
        self._ended = threading.Event()

    def run(self) -> None:
        """Send until stopped."""
        while not self._ended.wait(self._every):
            for plan in self._plans.plans:
                send(self._sink, plan, self._plans.namespace)
            self._sink.flush(30)
            self.acknowledged.append(time.monotonic())

    def stop(self) -> None:
        """End after the present round."""
        self._ended.set()
        self.join()


def send(sink: Sink, plan: Plan, namespace: str, group: int = 0) -> None:
    """Send ten reports to a group of a plan."""
    values = {"v": np.arange(REPORTS) % 4}
    batch = Batch(plan.window_at(int(time.time() * 1000)), REPORTS, None, values)
    topic = plan_names(plan, namespace).reports(group)
    sink.send(topic, os.urandom(16), encode_batch(plan, group, batch), partition=0)


def cpu_seconds(process: Process) -> float:
    """Return the processor time of a process."""
    fields = Path(f"/proc/{process.child.pid}/stat").read_text().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_A_SECOND


def resources(process: Process) -> str:
    """Return memory, threads and connections of a process in words."""
    status = Path(f"/proc/{process.child.pid}/status").read_text()
    values = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    links = []
    for link in Path(f"/proc/{process.child.pid}/fd").iterdir():
        try:
            links.append(str(link.readlink()))
        except FileNotFoundError:
            continue
    sockets = sum(link.startswith("socket:") for link in links)
    megabytes = int(values["VmRSS"].split()[0]) / 1024
    return f"{megabytes:.0f} MB, {values['Threads'].strip()} threads, {sockets} sockets"


def served(process: Process, number: int) -> bool:
    """Return whether every plan of the folder is well in all roles."""
    body = process.page("/readyz", accept="application/json")[1]
    if not body:
        return False
    roles = [role["plans"] for name, role in json.loads(body)["roles"].items() if name != "plans"]
    return all(
        len(plans) == number
        and all(plan["well"] and plan["detail"] == "ready" for plan in plans.values())
        for plans in roles
    )


def accepted(process: Process) -> dict[str, float]:
    """Return the reports that a worker has accepted, by plan."""
    found: dict[str, float] = {}
    page = "/metrics?name[]=calmstream_reports_accepted_total"  # to render all costs much more
    for line in process.page(page)[1].splitlines():
        if line.startswith("calmstream_reports_accepted_total{"):
            labels, value = line.rsplit(" ", 1)
            plan = labels.split('plan="')[1].split('"')[0]
            found[plan] = found.get(plan, 0.0) + float(value)
    return found


def start(
    stack: ExitStack,
    bootstrap: str,
    plans: Plans,
    role: str,
    settings: dict[str, str] | None = None,
) -> Process:
    """Start a process over the folder, and wait until it serves every plan."""
    began = time.monotonic()
    arguments = ("consume", "--plans", plans.folder, "--allow-unsigned", "--role", role)
    more = ("--bootstrap", bootstrap, "--namespace", plans.namespace, "--create-topics")
    log = Path(tempfile.gettempdir()) / f"many-plans-{role}.log"
    log.unlink(missing_ok=True)
    process = Process(log, *arguments, *more, settings=settings)
    stack.callback(process.kill)
    number = len(plans.plans)
    until(f"{role} serves all plans", lambda: served(process, number), SERVED_SECONDS, 0.5)
    seconds = time.monotonic() - began
    cpu = cpu_seconds(process)
    print(f"{role}: all plans served after {seconds:.1f} s, {cpu:.1f} s of CPU")
    return process


class Connection:
    """A connection that is closed at the end."""

    def __init__(self, bootstrap: str) -> None:
        self._broker = connect(bootstrap)

    def __enter__(self) -> Broker:
        return self._broker

    def __exit__(self, *_: object) -> None:
        self._broker.close()
