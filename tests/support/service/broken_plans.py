"""One plan of several is broken in every way while one service serves them all.

Judged from outside: the counts and finals of the other plans, and the time to their next final.
"""

from __future__ import annotations

import os
import signal
import threading
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import orjson

import calmstream
from calmstream.broker.kafka import connect
from calmstream.broker.topic_facts import ensure_topics
from calmstream.broker.transport import Partition
from calmstream.consumer.metrics.registry import plan_label
from calmstream.consumer.subscribe.subscribe import plan_names
from calmstream.estimators.plan import Plan
from calmstream.estimators.tally import Tally
from calmstream.estimators.wire.state import (
    PartitionState,
    WindowCount,
    encode_state,
    partition_key,
)
from tests.support.service.processes import Process, run, until
from tests.support.service.several_plans import GRACE, WINDOW, Sender, compare, small_plan

FAULTS = ("deleted", "trimmed", "create-time", "newer-state", "other-cluster", "estimate")
"""What is wrong with the broken plan, in the words of its name."""

SOON = 3 * WINDOW
"""Seconds within which a final comes once nothing waits from the start."""

REASONS = {
    "deleted": ("was deleted while it was in use", "does not exist"),
    "trimmed": ("reports are missing", "were deleted before"),
    "create-time": ("CreateTime", "the sender set the time"),
    "newer-state": ("newer",),
    "other-cluster": ("the topic was deleted and created again",),
    "estimate": ("an estimate that fails on purpose",),
}
"""Parts of the reason that the service may state, by fault."""

_SHIM = """
import calmstream.consumer.publish.session as session

built = session.build_set

def build_set(plan, merged, **options):
    if plan.name == "estimate":
        raise ValueError("an estimate that fails on purpose")
    return built(plan, merged, **options)

session.build_set = build_set
"""
"""A module that Python imports at its start: the service runs as it is but for one estimate."""


@dataclass
class Outcome:
    """What a soak has found."""

    reports: int = 0  # number of reports of the healthy plans, each of them counted exactly
    # by fault, the most seconds that a final of a healthy plan came after the end of its
    # window and grace
    slowest: dict[str, float] = field(default_factory=dict)
    # by fault, the reason that the service stated
    reasons: dict[str, str] = field(default_factory=dict)
    rows: int = 0  # rows that the sink stored of the healthy plans

    def lines(self) -> list[str]:
        """Return what is printed."""
        lines = [
            f"{self.reports:,} reports of healthy plans, all counted; {self.rows:,} rows stored"
        ]
        for fault, reason in self.reasons.items():
            lines.append(f"{fault}: latest final {self.slowest[fault]:.1f} s; {reason[:100]}")
        return lines


class Watch:
    """Notes from the metrics when finals of plans are published."""

    def __init__(self, service: Process, plans: list[Plan]) -> None:
        self._service = service
        self._plans = {plan_label(plan): plan for plan in plans}
        self._final: dict[str, float] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.late: list[tuple[float, float]] = []
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(0.25):
            now = time.time()
            for label, final in values(self._service, "calmstream_windows_final").items():
                plan = self._plans.get(label)
                if plan is None or final <= self._final.get(label, 0):
                    continue
                if label in self._final:
                    # The oldest of the windows that have become final since the last look.
                    due = plan.window_end(int(self._final[label])) / 1000 + GRACE
                    self.late.append((now, now - due))
                self._final[label] = final

    def slowest(self, since: float) -> float:
        """Return the most seconds that a final was late since a time; 0 without one."""
        return max((late for at, late in self.late if at >= since), default=0.0)

    def in_time(self, number: int) -> bool:
        """Return whether the last finals, so many, came soon: what waited at the start is done."""
        last = self.late[-number:]
        return len(last) == number and all(late < SOON for _, late in last)

    def number(self, since: float) -> int:
        return sum(at >= since for at, _ in self.late)

    def end(self) -> None:
        self._stop.set()
        self._thread.join(30)


def values(process: Process, name: str) -> dict[str, float]:
    """Return the values of a metric by plan."""
    found = {}
    for line in process.page("/metrics")[1].splitlines():
        if line.startswith(name + "{"):
            found[line.split('plan="')[1].split('"')[0]] = float(line.rsplit(" ", 1)[1])
    return found


class Soak:
    """Healthy plans, a service and a sink in a namespace; breaks one more plan after another."""

    def __init__(self, bootstrap: str, directory: Path, healthy: int = 4, windows: int = 2) -> None:
        self.namespace = f"soak-{uuid.uuid4().hex[:8]}"
        self.bootstrap = bootstrap
        self.folder = directory / "plans"
        self.folder.mkdir()
        self.outcome = Outcome()
        self._results = directory / "results"
        self._windows = windows
        self._broker = connect(bootstrap)
        self._sink = self._broker.sink()
        self.healthy = [small_plan(f"healthy-{number}", 1) for number in range(healthy)]
        for plan in self.healthy:
            self._show(plan)
        shim = directory / "shim"
        shim.mkdir()
        (shim / "sitecustomize.py").write_text(_SHIM)
        product = Path(calmstream.__file__).parents[1]
        where = ("--plans", self.folder, "--allow-unsigned", "--bootstrap", bootstrap)
        self._options = (*where, "--namespace", self.namespace)
        made = run("topics", *self._options)
        assert made.returncode == 0, made.stdout + made.stderr
        self.service = Process(
            directory / "service.log",
            *("consume", *self._options, "--create-topics"),
            settings={"PYTHONPATH": f"{shim}{os.pathsep}{product}"},
        )
        self.storing = Process(
            directory / "sink.log", "sink", *self._options, "--to", f"parquet:{self._results}"
        )
        self.sender = Sender(bootstrap, self.namespace, self.healthy)

    def play(self, faults: tuple[str, ...]) -> Outcome:
        """Break a plan in each way; compare everything at the end."""
        self.service.ready(120)
        self.storing.ready(120)
        watch = Watch(self.service, self.healthy)
        try:
            until("finals are in time", lambda: watch.in_time(len(self.healthy)), 120)
            for fault in faults:
                self._break(fault, watch)
        finally:
            watch.end()
        self.sender.end()
        for plan in self.healthy:
            self.outcome.reports += compare(plan, self.sender, self.bootstrap, self.namespace)
        self._check_rows()
        for process in (self.service, self.storing):
            assert process.alive(), process.tail()
            process.signal(signal.SIGTERM)
            assert process.wait(60) == 0, process.tail()
            assert "Traceback" not in process.log.read_text()
        return self.outcome

    def close(self) -> None:
        for process in (self.service, self.storing):
            process.kill()
        self.sender.close()
        self._sink.close(10)
        self._broker.close()

    def _show(self, plan: Plan) -> None:
        (self.folder / f"{plan.name}.json").write_bytes(plan.to_bytes())

    def _break(self, fault: str, watch: Watch) -> None:
        plan = small_plan(fault, 1)
        names, topics = plan_names(plan, self.namespace), self._broker.topics()
        ensure_topics(self._broker, plan, names)
        reports = Partition(names.reports(0), 0)
        for turn in range(4):
            self.sender.send(plan, turn)
        if fault == "trimmed":
            topics.trim(topics.log_ends([reports]))
        if fault == "newer-state":
            body = orjson.dumps({"v": "99.0", "plan": plan.digest})
            self._sink.send(names.state, partition_key(0, 0), body, partition=0).wait(30)
        if fault == "other-cluster":
            # As after a copy of all topics to another cluster: the ids of the topics are others.
            count = WindowCount(Tally.zero(1, 4))
            copied = PartitionState("A" * 22, 2, 0, -1, 0, 0, count, {})
            body = encode_state(plan, copied)
            self._sink.send(names.state, partition_key(0, 0), body, partition=0).wait(30)
        since = time.time()
        self._show(plan)
        if fault in ("deleted", "create-time"):
            until(f"{fault} is served", lambda: self._ready(plan), 60)
        if fault == "deleted":
            topics.delete([reports.topic])
        if fault == "create-time":
            topics.alter([reports.topic], {"message.timestamp.type": "CreateTime"})
        until(f"{fault} is in quarantine", lambda: bool(self._reason(plan)), 90)
        self.outcome.reasons[fault] = self._reason(plan)
        assert any(part in self._reason(plan) for part in REASONS[fault]), self._reason(plan)
        wanted = self._windows * len(self.healthy)
        until("the others have finals", lambda: watch.number(since) >= wanted, 90)
        assert self.service.page("/readyz")[0] == 200, self.service.page("/readyz")[1]
        self.outcome.slowest[fault] = watch.slowest(since)
        self._assert_alone_in_quarantine(plan)
        (self.folder / f"{plan.name}.json").unlink()
        until(f"{fault} is given back", lambda: self._details(plan) == [], 90)
        topics.close()

    def _assert_alone_in_quarantine(self, plan: Plan) -> None:
        for role in ("tally", "publisher"):
            found = values(self.service, f"calmstream_{role}_quarantined")
            assert {label for label, x in found.items() if x} <= {plan_label(plan)}
        found = values(self.storing, "calmstream_sink_quarantined")
        assert not any(found.get(plan_label(one), 1.0) for one in self.healthy)

    def _details(self, plan: Plan) -> list[str]:
        body = self.service.page("/readyz", accept="application/json")[1]
        roles = (
            orjson.loads(body)["roles"].values() if body else [{"plans": {plan_label(plan): {}}}]
        )
        found = [role["plans"].get(plan_label(plan)) for role in roles]
        return [one.get("detail", "") for one in found if one is not None]

    def _ready(self, plan: Plan) -> bool:
        return self._details(plan) == ["ready", "ready"]

    def _reason(self, plan: Plan) -> str:
        """Return why the plan is in quarantine; empty if it is not."""
        found = [detail for detail in self._details(plan) if detail.startswith("quarantined")]
        return found[0] if found else ""

    def _check_rows(self) -> None:
        """Await that the sink has a final of every window with reports of the healthy plans."""
        sent = {key for key in self.sender.sent if key[0] in {plan.name for plan in self.healthy}}

        def stored() -> set[tuple[str, int]]:
            query = "SELECT DISTINCT plan_name, window_number FROM results WHERE kind = 'final'"
            return set(self._read(query))

        until("every final is stored", lambda: sent <= stored(), 60, pause=1.0)
        query = "SELECT count(*) FROM results WHERE plan_name LIKE 'healthy-%'"
        self.outcome.rows = int(self._read(query)[0][0])

    def _read(self, query: str) -> list[tuple[object, ...]]:
        def rows() -> list[tuple[object, ...]] | None:
            try:
                with duckdb.connect() as connection:
                    files = f"{self._results}/**/*.parquet"
                    connection.execute(f"CREATE VIEW results AS FROM read_parquet('{files}')")
                    return connection.execute(query).fetchall()
            except duckdb.Error:  # there is no file yet
                return None

        found: list[list[tuple[object, ...]]] = []

        def read() -> bool:
            if (got := rows()) is not None:
                found.append(got)
            return bool(found)

        until("the file is free", read, 30)
        return found[0]
