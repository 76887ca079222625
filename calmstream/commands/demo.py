"""``calmstream demo``: the whole pipeline on real data, with a live table."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from typing import Any

from rich.table import Table as Grid

from calmstream import arguments
from calmstream.broker.in_process import InProcessBroker
from calmstream.broker.topic_facts import ensure_topics
from calmstream.broker.transport import Broker
from calmstream.common.errors import InvalidInput
from calmstream.connect import kafka
from calmstream.consumer.runtime.service import Signals, configure_logging
from calmstream.consumer.subscribe.subscribe import Snapshot, plan_names
from calmstream.demo import NAMESPACE, Demo, K, summarise
from calmstream.estimators.wire.snapshot import Kind
from calmstream.local_service import local_results
from calmstream.output import say, say_json
from calmstream.pages.watch import watch
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
        stop = stack.enter_context(Signals())
        while not stop.wait(_TURN_SECONDS):
            pass
    return 0


def _run(demo: Demo, *, as_json: bool) -> None:
    """Show the running total as it becomes more precise, and at the end its error."""
    began, plan, seen = time.monotonic(), demo.plan, list[Snapshot]()

    def totals() -> Iterator[Snapshot]:
        for snapshot in demo.run():
            seen.append(snapshot)
            if snapshot.kind is Kind.TOTAL:
                yield snapshot

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
