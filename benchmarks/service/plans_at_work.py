"""Measure whether heavy plans delay the finals of light ones.

``fair`` publishes a light plan of four attributes with windows of ten seconds: alone, then beside
a plan of D attributes with L labels, whose estimate takes seconds. It prints the times from the
moment at which a window of the light plan may close to its final.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.service.plans_setting import (
    Connection,
    Plans,
    Sender,
    plan_of,
    start,
)
from calmstream import read_plan
from calmstream.broker.transport import Broker
from calmstream.consumer.metrics.registry import plan_label
from calmstream.estimators.plan import Plan
from tests.support.service.processes import Process, run, until

WINDOW, GRACE = 10, 2
FINALS = "calmstream_final_snapshots_published_total"
ESTIMATES = "calmstream_estimate_duration_seconds"


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
