"""Run the whole pipeline in one process with an embedded broker.

Devices drawn from the UCI Adult data report, and the result is compared with the truth.
"""

from __future__ import annotations

import argparse
import secrets
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from importlib.resources import files
from itertools import combinations
from typing import Any

import numpy as np
from prometheus_client import CollectorRegistry
from rich.table import Table as Grid

from calmstream import arguments
from calmstream.broker.in_process import InProcessBroker
from calmstream.broker.transport import Broker
from calmstream.common.clock import SystemClock
from calmstream.common.errors import FatalError, InvalidInput
from calmstream.common.settings import load
from calmstream.connect import kafka
from calmstream.consumer.runtime.service import configure_logging, stop_on_signals
from calmstream.consumer.serve.metrics import ServeMetrics
from calmstream.consumer.serve.server import ResultsServer
from calmstream.consumer.serve.settings import ServeSettings
from calmstream.consumer.subscribe.assembler import Snapshot
from calmstream.estimators import planning
from calmstream.estimators.domain import Attribute, Codes, Domain
from calmstream.estimators.marginal import sse, total_variation
from calmstream.estimators.methods.base import Request
from calmstream.estimators.plan import Guarantee, Plan
from calmstream.estimators.wire.snapshot import Kind
from calmstream.local_service import LocalService, Part
from calmstream.output import say, say_json
from calmstream.pages.watch import watch
from calmstream.producer.simulation.produce import produce
from calmstream.tables.records import read_texts
from calmstream.terminal import Console

NAMESPACE = "demo"
EPSILON = "2"  # at 1 the dependence of education and income hides in the noise
K = 3  # maximum number of attributes of the published tables
WINDOWS = 5  # so many show a running total, and take less than a minute
WINDOW_SECONDS = 8  # length of a window in seconds
GRACE_SECONDS = 2  # time in seconds for late reports, and for reports that are too early
SHOWN = ("marital-status", "income")
MIN_REPORTS = 1000
_TURN_SECONDS = 0.2


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--reports",
        type=arguments.positive,
        default=400_000,
        help="number of devices (default: 400,000)",
    )
    parser.add_argument(
        "--bootstrap", dest="kafka", metavar="HOST:PORT", help="use this Kafka broker instead"
    )
    parser.add_argument("--method", default=arguments.DEFAULT_METHOD, help="default: %(default)s")
    arguments.add(parser, "--json")
    parser.add_argument(
        "--serve",
        action="store_true",
        help="show the results on a page too, and keep it open until Ctrl+C",
    )
    parser.add_argument(
        "--port", type=int, default=0, help="port of the page (default: any free one)"
    )


def run(args: argparse.Namespace) -> int:
    if args.reports < MIN_REPORTS:
        raise InvalidInput(f"--reports: the demo needs at least {MIN_REPORTS:,}")
    if args.serve and args.json:
        raise InvalidInput("--json: prints one object and ends; it does not go with --serve")
    configure_logging("error")
    broker: Broker = kafka(args.kafka) if args.kafka else InProcessBroker()
    with ExitStack() as stack:
        stack.enter_context(closing(broker))
        demo = Demo(broker, args.reports, args.method)
        stack.callback(demo.service.stop)
        parts = [demo.report]
        if args.serve:
            server = _server(demo.plan, broker, args.port)
            page = f"http://127.0.0.1:{server.port}"
            say(f"the page: {page}")
            parts.append(server.run)
        _run(demo, parts, as_json=args.json)
        if args.serve:
            say(f"the page stays open: {page} (Ctrl+C ends it)")
            stop = stack.enter_context(stop_on_signals())
            while not stop.wait(_TURN_SECONDS):
                if demo.service.failure is not None:
                    raise demo.service.failure
    return 0


def _server(plan: Plan, broker: Broker, port: int) -> ResultsServer:
    settings = load(ServeSettings, host="127.0.0.1", port=port)
    metrics, plans = ServeMetrics(CollectorRegistry()), {plan.digest: plan}
    return ResultsServer(
        lambda: plans, broker, settings, SystemClock(), metrics, namespace=NAMESPACE
    )


def _run(demo: Demo, parts: Sequence[Part], *, as_json: bool) -> None:
    """Show the running total as it becomes more precise, and at the end its error."""
    began, plan, seen = time.monotonic(), demo.plan, list[Snapshot]()
    demo.service.start(*parts)

    def totals() -> Iterator[Snapshot]:
        for snapshot in demo.service.snapshots():
            seen.append(snapshot)
            if snapshot.kind is Kind.TOTAL:
                yield snapshot
                if snapshot.window == plan.windows - 1:
                    return
        raise demo.service.failure or FatalError("the demo ended without its last snapshot")

    if as_json:
        for _ in totals():
            pass
    else:
        say(
            f"{len(demo.codes):,} devices, each reporting once at epsilon {plan.epsilon}: "
            f"{len(plan.domain)} attributes, {len(plan.groups)} groups, {plan.windows} windows of "
            f"{plan.window} s; {len(plan.marginals)} marginals are published"
        )
        watch(totals(), SHOWN)
    outcome = summarise(demo, seen[-1], len(seen), time.monotonic() - began)
    if as_json:
        say_json(outcome)
    else:
        Console().print(_conclusion(demo, outcome))


def _conclusion(demo: Demo, outcome: Mapping[str, Any]) -> Grid:
    unsent = outcome["reports"] - demo.sent
    counted = f"{outcome['accepted']:,} of {outcome['reports']:,}"
    uniform, ratio = outcome["uniform_sse"], outcome["uniform_sse"] / outcome["sse_mean"]
    grid = Grid(title=f"all {outcome['windows']} windows against the truth", show_header=False)
    for name, value in (
        ("reports counted", f"{counted}; {unsent:,} not sent in time" if unsent > 0 else counted),
        ("records rejected", f"{outcome['rejected']:,}"),
        ("snapshot sets published", f"{outcome['snapshots']:,}"),
        (f"squared error of a {K}-way marginal", f"{outcome['sse_mean']:.5f}"),
        ("the same for a uniform table", f"{uniform:.5f} ({ratio:.0f} times as much)"),
        ("total variation distance", f"{outcome['tv_mean']:.4f}"),
        ("reports a second, paced", f"{outcome['reports_per_second']:,.0f}"),
        ("privacy loss of a device", f"epsilon {demo.plan.epsilon}, once"),
    ):
        grid.add_row(name, value)
    return grid


def adult() -> tuple[Domain, Codes]:
    """Return the domain and the records of the example data: shape (32561, 8), uint16."""
    columns = read_texts(str(files("calmstream.data").joinpath("adult.csv.gz")))
    domain = Domain(
        tuple(Attribute(name, tuple(sorted(set(column)))) for name, column in columns.items())
    )
    return domain, domain.encode(columns)


def draw_plan(domain: Domain, reports: int, method: str) -> Plan:
    """Return a plan that starts within a second, so that the first window is complete."""
    d = len(domain)
    marginals = [m for size in (1, 2, K) for m in combinations(range(d), size)]
    plan, _ = planning.draft(
        method,
        Request(domain, EPSILON, max(1, reports // WINDOWS), K),
        name="demo",
        purpose="to show calmstream at work",
        owner="whoever runs it",
        lineage=secrets.token_hex(16),
        start=int(time.time()) + 1,
        window=WINDOW_SECONDS,
        windows=WINDOWS,
        grace=GRACE_SECONDS,
        skew=GRACE_SECONDS,
        partitions=1,
        guarantee=Guarantee("once"),
        marginals=marginals,
    )
    return plan


def pacing_seconds(plan: Plan, now: int) -> float:
    """Return the seconds in which all report; half of a window stays free for slow machines."""
    left = plan.window_end(plan.windows - 1) - max(now, plan.window_start(0))
    return max(1.0, left / 1000 - plan.window / 2)


class Demo:
    """One run of the pipeline: the records of its devices, its plan, and how many were sent."""

    def __init__(self, broker: Broker, reports: int, method: str) -> None:
        self._broker = broker
        domain, records = adult()
        rows = np.random.default_rng(secrets.randbits(64)).integers(len(records), size=reports)
        self.codes = records[rows]
        self.plan = draw_plan(domain, reports, method)
        self.sent = 0
        self.service = LocalService(self.plan, broker, NAMESPACE)

    def report(self, stop: threading.Event) -> None:
        def note(sent: int) -> None:
            self.sent = sent

        rate = len(self.codes) / pacing_seconds(self.plan, SystemClock().now_ms())
        names = self.service.names
        summary = produce(
            self.plan, self._broker, names, self.codes, rate=rate, progress=note, stop=stop
        )
        if summary.error is not None:
            raise summary.error


def summarise(demo: Demo, last: Snapshot, snapshots: int, seconds: float) -> dict[str, Any]:
    """Compare the last running total with the devices' tables: means over marginals of size K."""
    plan, domain = demo.plan, demo.plan.domain
    errors, distances, baseline = [], [], []
    for attributes in (m for m in plan.marginals if len(m) == K):
        truth = domain.histogram(demo.codes, attributes) / len(demo.codes)
        table = np.array(last.record(*(domain.names[i] for i in attributes)).table)
        errors.append(sse(table, truth))
        distances.append(total_variation(table, truth))
        baseline.append(sse(np.full(len(truth), 1 / len(truth)), truth))
    return {
        "reports": len(demo.codes),
        "accepted": last.manifest.reports,
        "rejected": sum(last.manifest.rejected.values()),
        "windows": plan.windows,
        "snapshots": snapshots,
        "method": plan.method,
        "epsilon": float(plan.epsilon),
        "sse_mean": float(np.mean(errors)),
        "tv_mean": float(np.mean(distances)),
        "uniform_sse": float(np.mean(baseline)),
        "reports_per_second": last.manifest.reports / seconds,
    }
