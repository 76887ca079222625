"""Measure many plans at work: what they count together, and whether heavy plans delay light ones.

``throughput`` appends N batches of ten reports to the topics of 20 plans together, of four groups
each, and as many to those of one plan: with four groups, and with 80. The plan with 80 groups has
as many topics, with the same number of batches each, as the 20 plans. It prints how many batches a
tally worker then counts in a second and in a second of CPU. Other load of the machine changes
mostly the first number. The second number leaves out the CPU that the worker needs in the same
time without batches.

``fair`` publishes a light plan of four attributes with windows of ten seconds: alone, then beside
a plan of D attributes with L labels, whose estimate takes seconds. It prints the times from the
moment at which a window of the light plan may close to its final.
"""

from __future__ import annotations

import json
import os
import signal
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.service.plans_setting import (
    REPORTS,
    Connection,
    Plans,
    Sender,
    accepted,
    cpu_seconds,
    plan_of,
    send,
    start,
)
from broker.transport import Broker
from calmstream import read_plan
from consumer.metrics.registry import plan_label
from estimators.plan import Plan
from tests.support.service.processes import Process, run, until

ACTIVE_PLANS = 20
GROUPS = 4
SHAPES = ((1, GROUPS), (1, ACTIVE_PLANS * GROUPS), (ACTIVE_PLANS, GROUPS))
"""Numbers of plans and of the groups of each, the last one compared with the others."""

RUN = 50
"""Number of consecutive batches for one partition. Without such runs the sender would make smaller
record batches for more partitions, and each costs the reader time."""

COUNT_SECONDS = 120.0
SETTLE_SECONDS = 2.0
WINDOW, GRACE = 10, 2
FINALS = "calmstream_final_snapshots_published_total"
ESTIMATES = "calmstream_estimate_duration_seconds"


def throughput(bootstrap: str, batches: int) -> None:
    """Compare the rates of a worker with one active plan, of few and many groups, and with 20."""
    rates = {}
    for number, groups in SHAPES:
        with ExitStack() as stack:
            rates[number, groups] = _rate(stack, bootstrap, number, groups, batches)
    *single, many = SHAPES
    for number, groups in single:
        ratio = rates[many] / rates[number, groups]
        print(
            f"{many[0]} plans of {many[1]} groups: {ratio:.2f} of the batches per second of CPU of "
            f"{number} plan of {groups} groups"
        )


def _rate(stack: ExitStack, bootstrap: str, number: int, groups: int, batches: int) -> float:
    """Return the batches that a worker counts in a second of CPU.

    The worker is frozen while the batches are appended, so that it counts without waiting. It is
    frozen for as long once more without batches: the CPU of that time is not that of counting.
    """
    name = f"busy-{number}-{groups}"
    made = (plan_of(f"{name}-{n:02}", groups) for n in range(number))
    plans = tuple(replace(plan, limits=None) for plan in made)
    broker, setting = _setting(stack, bootstrap, plans, name)
    worker = start(stack, bootstrap, setting, "tally", {"CALMSTREAM_SESSION_SECONDS": "300"})
    sink = broker.sink()
    frozen = time.monotonic()
    worker.signal(signal.SIGSTOP)
    for batch in range(batches):
        run_of = batch // RUN
        send(sink, plans[run_of % number], setting.namespace, run_of // number % groups)
    sink.close(60)
    frozen = time.monotonic() - frozen
    total = batches * REPORTS
    seconds, cpu = _thawed(worker, lambda: sum(accepted(worker).values()) == total)
    worker.signal(signal.SIGSTOP)
    time.sleep(frozen)
    ends = time.monotonic() + seconds
    idle = _thawed(worker, lambda: bool(accepted(worker)) and time.monotonic() > ends)[1]
    print(
        f"{number} plans of {groups} groups: {batches:,} batches in {seconds:.1f} s, "
        f"{batches / seconds:,.0f} a second, {cpu:.2f} s of CPU, {idle:.2f} s without batches, "
        f"{batches / (cpu - idle):,.0f} in a second of CPU"
    )
    return batches / (cpu - idle)


def _thawed(worker: Process, done: Callable[[], bool]) -> tuple[float, float]:
    """Let a frozen worker go on; return the seconds until it is done, and its CPU until then.

    The CPU is that until a moment later, so that it contains the checkpoints.
    """
    began, cpu = time.monotonic(), cpu_seconds(worker)
    worker.signal(signal.SIGCONT)
    until("all is counted", done, COUNT_SECONDS, 0.3)
    seconds = time.monotonic() - began
    time.sleep(SETTLE_SECONDS)
    return seconds, cpu_seconds(worker) - cpu


def fair(bootstrap: str, seconds: float, attributes: int, labels: int) -> None:
    """Print the delays of a light plan's finals alone and beside a heavy plan."""
    with tempfile.TemporaryDirectory() as path:
        heavy = _heavy_plan(Path(path), attributes, labels)
        for beside in ((), (heavy,)):
            with ExitStack() as stack:
                _finals(stack, bootstrap, seconds, beside, Path(path))


def _finals(
    stack: ExitStack, bootstrap: str, seconds: float, beside: tuple[Plan, ...], path: Path
) -> None:
    light = _light_plan()
    broker, setting = _setting(stack, bootstrap, (light, *beside), f"fair-{len(beside)}")
    worker = start(stack, bootstrap, setting, "all")
    sender = Sender(broker, replace(setting, plans=(light,)), 1.0)
    sender.start()
    stack.callback(sender.stop)
    for _plan in beside:
        where = ("--bootstrap", bootstrap, "--namespace", setting.namespace)
        records = ("--records", path / "records.csv", "--rate", "1000", "--batch-size", "100")
        document = path / "heavy.json"
        device = Process(path / "devices.log", "produce", "--plan", document, *where, *records)
        stack.callback(device.kill)
    delays = _delays(worker, light, seconds)
    what = "beside a heavy plan" if beside else "alone"
    print(f"light plan {what}: finals {np.median(delays):.1f} s, at most {max(delays):.1f} s late")
    for plan in beside:
        total, count = (_metric(worker, f"{ESTIMATES}_{end}", plan) for end in ("sum", "count"))
        short = _metric(worker, f"{ESTIMATES}_bucket", plan, 'le="1.0"')  # without reports
        number = max(count - short, 1)
        print(
            f"heavy plan: {number:.0f} estimates of at least a second, {total / number:.1f} s each"
        )


def _delays(worker: Process, plan: Plan, seconds: float) -> list[float]:
    """Return for each new final the seconds since its window could be closed.

    The first final is left out: it may be of a window that ended before the start.
    """
    finals = _metric(worker, FINALS, plan)
    until("a final", lambda: _metric(worker, FINALS, plan) > finals, 120)
    delays: list[float] = []
    ends, finals = time.monotonic() + seconds, _metric(worker, FINALS, plan)
    while time.monotonic() < ends:
        time.sleep(0.1)
        found = _metric(worker, FINALS, plan)
        if found > finals:
            finals = found
            now = time.time() - plan.start - plan.grace
            delays.append(now % plan.window)
    return delays


def _metric(process: Process, name: str, plan: Plan, label: str = "") -> float:
    labels = (f'plan="{plan_label(plan)}"', label)
    lines = process.page(f"/metrics?name[]={name}")[1].splitlines()
    return sum(
        float(line.rsplit(" ", 1)[1])
        for line in lines
        if line.startswith(name + "{") and all(part in line for part in labels)
    )


def _light_plan() -> Plan:
    start_at = int(time.time()) // WINDOW * WINDOW - WINDOW
    plan = plan_of("light", 1)
    return replace(plan, start=start_at, expires=start_at + 3600, window=WINDOW, grace=GRACE)


def _heavy_plan(path: Path, attributes: int, labels: int) -> Plan:
    """Make a plan of noise-aware with all pairs of attributes, and dependent records for it."""
    names = [f"a{number}" for number in range(attributes)]
    values = [f"v{code:02}" for code in range(labels)]
    domain = [{"name": name, "labels": values, "other": values[0]} for name in names]
    (path / "domain.json").write_text(json.dumps(domain))
    made = run(
        *("plan", path / "domain.json", "--epsilon", "1", "--users", "10000", "--k", "2"),
        *("--method", "noise-aware", "--window", f"{WINDOW}s", "--grace", f"{GRACE}s"),
        *("--lifetime", "1h", "--name", "heavy", "--purpose", "b", "--owner", "b"),
        *("--out", path / "heavy.json"),
    )
    assert made.returncode == 0, made.stderr
    random = np.random.default_rng(1)
    cause = random.normal(size=(100_000, 1))
    scores = random.normal(size=(100_000, attributes)) + 0.8 * cause
    rows = np.array(values)[scores.argsort(axis=0).argsort(axis=0) * labels // 100_000]
    lines = [",".join(names), *(",".join(row) for row in rows)]
    (path / "records.csv").write_text("\n".join(lines) + "\n")
    return read_plan((path / "heavy.json").read_bytes())


def _setting(
    stack: ExitStack, bootstrap: str, plans: tuple[Plan, ...], name: str
) -> tuple[Broker, Plans]:
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    setting = Plans(f"{name}-{os.getpid()}", plans, folder)
    broker = stack.enter_context(Connection(bootstrap))
    setting.put_all(stack, broker)
    return broker, setting
