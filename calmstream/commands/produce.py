"""Simulate devices that report the records of a table.

Each row is a device that perturbs its record and reports within the plan's guarantee; every run has
other devices. For first trials and load tests. Exit code 3: the plan ended before every device was
asked.
"""

from __future__ import annotations

import argparse
import math
from contextlib import ExitStack, closing
from itertools import starmap

import numpy as np
from prometheus_client import CollectorRegistry
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from calmstream import arguments
from calmstream.common.clock import SystemClock, utc
from calmstream.common.errors import FatalError, InvalidInput
from calmstream.common.health import health_app
from calmstream.common.http.server import ThreadServer
from calmstream.connect import names_of, opened
from calmstream.consumer.metrics.registry import new_registry
from calmstream.consumer.runtime.service import stop_on_signals
from calmstream.estimators.plan import Plan
from calmstream.estimators.randomness import SystemRandomness
from calmstream.evaluation.streams import times_of
from calmstream.output import say
from calmstream.producer.gateway.encoding import DEFAULT_SIZE
from calmstream.producer.gateway.metrics import GatewayTotals
from calmstream.producer.simulation.produce import ProduceSummary, produce
from calmstream.producer.simulation.recorded import Event, RecordedDevices
from calmstream.tables.reading import ReadingOptions, add_options, load, reading
from calmstream.tables.records import read_table
from calmstream.terminal import Console

UNFINISHED = 3  # exit code: nothing failed, but the plan ended before every device was asked


def add(parser: argparse.ArgumentParser) -> None:
    arguments.add(parser, "--plan", *arguments.BROKER)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "--records", metavar="DATA", help="table of records: CSV, Parquet, JSON lines, Excel"
    )
    what.add_argument(
        "--events",
        metavar="DATA",
        help="table of events, with the columns device, time, event and value: each device has a "
        "recorder that lives through its events before the window (docs/recording.md)",
    )
    parser.add_argument(
        "--rate", type=arguments.below(math.inf), help="reports per second (default: no limit)"
    )
    parser.add_argument(
        "--batch-size",
        type=arguments.positive,
        default=DEFAULT_SIZE,
        help="most reports in a batch (default: %(default)s)",
    )
    parser.add_argument("--windows", type=arguments.positive, help="stop after this many windows")
    parser.add_argument(
        "--http-port", type=int, help="port of /metrics (default: none); 0: any free port"
    )
    parser.add_argument(
        "--http-host", default="127.0.0.1", help="address of /metrics (default: %(default)s)"
    )
    add_options(parser, columns=False)


def run(args: argparse.Namespace) -> int:
    """Let devices report until all have, the plan ends or a signal comes; see the exit codes."""
    plan, how = arguments.load_plan(args.plan), reading(args)
    recorded = _recorded(args.events, how, plan) if args.events else None
    if recorded is None:
        codes = read_table(args.records, how, plan.domain, SystemRandomness()).codes
    else:
        codes = np.zeros((len(recorded), len(plan.domain)), np.uint16)
    registry, console = new_registry(), Console(stderr=True)
    totals = GatewayTotals(plan, registry)
    with ExitStack() as stack:
        broker = stack.enter_context(opened(args))
        if args.http_port is not None:
            stack.enter_context(closing(serve(registry, args.http_host, args.http_port)))
        if plan.start > SystemClock().now_ms() / 1000:
            console.print(f"the plan starts at {utc(plan.start)}; waiting for that")
        columns = (TextColumn("reports"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        progress = stack.enter_context(Progress(*columns, console=console))
        task = progress.add_task("reports", total=len(codes))
        summary = produce(
            plan,
            broker,
            names_of(args, plan),
            codes,
            records=None if recorded is None else recorded.codes,
            rate=args.rate,
            batch_size=args.batch_size,
            windows=args.windows,
            totals=totals,
            progress=lambda sent: progress.update(task, completed=sent),
            stop=stack.enter_context(stop_on_signals()),
        )
    if recorded is not None and recorded.dropped:
        console.print(f"{recorded.dropped:,} events were not recorded (docs/recording.md)")
    return _conclude(summary)


def _recorded(path: str, how: ReadingOptions, plan: Plan) -> RecordedDevices:
    table = load(path, how)
    columns = {column.name: column for column in table.columns}
    if missing := [name for name in ("device", "time", "event") if name not in columns]:
        raise InvalidInput(f"{path}: there is no column {missing[0]!r}")
    times = (1000 * times_of(table.columns, "time")[1]).astype(np.int64)
    given = columns["value"].cells() if "value" in columns else [""] * table.records
    rows = zip(
        columns["device"].cells(), times.tolist(), columns["event"].cells(), given, strict=True
    )
    return RecordedDevices(plan, starmap(Event, rows), SystemRandomness())


def serve(registry: CollectorRegistry, host: str, port: int) -> ThreadServer:
    try:
        return ThreadServer(health_app(registry, ()), host, port, "metrics")
    except FatalError as error:
        raise InvalidInput(f"--http-port: {error}") from None


def _conclude(summary: ProduceSummary) -> int:
    say(
        f"{summary.sent:,} reports of {summary.devices:,} devices acknowledged in "
        f"{summary.batches:,} batches; {summary.retries} retries, {summary.failed:,} failed"
    )
    if summary.missing:
        missed = f"{summary.missing:,} report{'s were' if summary.missing > 1 else ' was'} not made"
        say(f"{missed}: the plan ended first" if summary.expired else missed)
    if summary.error is not None:
        raise summary.error
    if summary.failed:
        return 1
    return UNFINISHED if summary.expired and summary.missing else 0
