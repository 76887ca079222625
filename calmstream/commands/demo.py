"""``calmstream demo``: the whole pipeline on real data, with a live table."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from contextlib import ExitStack, closing
from typing import Any, Self

from rich.console import Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table as Grid

from calmstream import arguments
from calmstream.broker.in_process import InProcessBroker
from calmstream.broker.topic_facts import ensure_topics
from calmstream.broker.transport import Broker
from calmstream.common.errors import InvalidInput
from calmstream.connect import kafka
from calmstream.consumer.runtime.service import configure_logging
from calmstream.consumer.subscribe.subscribe import Snapshot, plan_names
from calmstream.demo import NAMESPACE, Demo, K, summarise
from calmstream.local_service import local_results
from calmstream.output import say, say_json, stopped_by_signals
from calmstream.pages.watch import render
from calmstream.terminal import Console

SHOWN = ("marital-status", "income")
MIN_REPORTS = 1000
_TURN_SECONDS = 0.2


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Run the whole pipeline in one process with an embedded broker: devices drawn "
        "from the UCI Adult data report, and the result is compared with the truth."
    )
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
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object instead of tables"
    )
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
        if not args.serve:
            _run(demo, as_json=args.json)
            return 0
        ensure_topics(broker, demo.plan, plan_names(demo.plan, NAMESPACE))
        page = stack.enter_context(local_results(demo.plan, broker, NAMESPACE, args.port))
        say(f"the page: {page}")
        _run(demo, as_json=False)
        say(f"the page stays open: {page} (Ctrl+C ends it)")
        stop = stopped_by_signals()
        while not stop.wait(_TURN_SECONDS):
            pass
    return 0


def _run(demo: Demo, *, as_json: bool) -> None:
    began = time.monotonic()
    snapshots = 0
    with _Screen(demo, quiet=as_json) as screen:
        for last in demo.run():
            snapshots += 1
            screen.show(last)
    outcome = summarise(demo, last, snapshots, time.monotonic() - began)
    if as_json:
        say_json(outcome)
    else:
        Console().print(_conclusion(demo, outcome))


class _Screen:
    """Progress and one marginal, live; nothing at all when quiet."""

    def __init__(self, demo: Demo, *, quiet: bool) -> None:
        self._demo = demo
        self._progress = Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
        )
        total = len(demo.codes)
        self._sent = self._progress.add_task("perturbed and sent", total=total)
        self._counted = self._progress.add_task("counted in final windows", total=total)
        self._table: RenderableType = "waiting for the first window"
        console = Console(quiet=quiet)
        self._live = Live(console=console, refresh_per_second=4, get_renderable=self._render)

    def __enter__(self) -> Self:
        plan = self._demo.plan
        self._live.console.print(
            f"{len(self._demo.codes):,} devices, each reporting once at epsilon {plan.epsilon}: "
            f"{len(plan.domain)} attributes, {len(plan.groups)} groups, {plan.windows} windows of "
            f"{plan.window} s; {len(plan.marginals)} marginals are published",
        )
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()
        if not self._live.console.is_terminal:
            # Where nothing is redrawn, the last frame ends without a line feed.
            self._live.console.print()

    def show(self, snapshot: Snapshot) -> None:
        if snapshot.kind == "total":
            self._progress.update(self._counted, completed=snapshot.manifest.reports)
        if snapshot.marginals:
            self._table = render(snapshot, SHOWN)

    def _render(self) -> RenderableType:
        self._progress.update(self._sent, completed=self._demo.sent.sent)
        return Group(self._progress, self._table)


def _conclusion(demo: Demo, outcome: Mapping[str, Any]) -> Grid:
    unsent = outcome["reports"] - demo.sent.sent
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
