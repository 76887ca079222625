"""``calmstream sink``: keep published tables in PostgreSQL or Parquet files."""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import closing

from prometheus_client import CollectorRegistry

from calmstream import arguments
from calmstream.commands.consume import FETCH_WAIT_SECONDS
from calmstream.common.clock import SystemClock
from calmstream.common.errors import FatalError
from calmstream.common.settings import load, variable
from calmstream.connect import kafka
from calmstream.consumer.metrics.plan import plan_metrics
from calmstream.consumer.metrics.registry import new_registry
from calmstream.consumer.plans.folder import PlanFolder
from calmstream.consumer.runtime.config import HttpConfig, TallyConfig
from calmstream.consumer.runtime.service import configure_logging, run_service
from calmstream.consumer.runtime.worker import Alone
from calmstream.consumer.sink.addresses import target_of
from calmstream.consumer.sink.metrics import sink_metrics
from calmstream.consumer.sink.once import OnceForEach
from calmstream.consumer.sink.target import Target
from calmstream.consumer.sink.worker import SinkTotals, SinkWorker, WithTarget
from calmstream.consumer.subscribe.subscribe import plan_names
from calmstream.estimators.plan import Plan

_INTERRUPTED = "interrupted before the end of the topic; run it again to store the rest"


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.description = (
        "Follow the snapshots topic and store every complete set of tables, one row "
        "for each cell, until SIGTERM or SIGINT. A set is stored as a whole or not at all, and a "
        "newer one replaces it. At a start nothing is lost or doubled. Joins no consumer group. "
        "With --plans a fault of one plan stops only this plan; it is tried again."
    )
    arguments.add_plans(parser)
    arguments.add_broker(parser)
    arguments.add_output_namespace(parser)
    parser.add_argument(
        "--to",
        required=True,
        metavar="TARGET",
        help="postgresql://[USER@]HOST[:PORT]/DATABASE (password: PGPASSWORD or ~/.pgpass), "
        "parquet:DIR",
    )
    parser.add_argument("--once", action="store_true", help="store what is published now and exit")
    arguments.add_http(parser, port="9464; with --once none")


def run(args: argparse.Namespace) -> int:
    """Store until a signal comes, or once."""
    http = _http(args)
    configure_logging(http.log_level)
    arguments.check_plans(args)
    target = target_of(args.to)
    if args.plans is None:
        _store_plan(args, target, http)
    elif args.once:
        _store_plans_once(args, target, http)
    else:
        _store_plans(args, target, http)
    return 0


def _store_plan(args: argparse.Namespace, target: Target, http: HttpConfig) -> None:
    plan = arguments.load_plan(args.plan)
    target.check_plan(plan)
    names = plan_names(plan, args.namespace, args.output_namespace)
    clock, registry = SystemClock(), new_registry()
    plan_metrics(registry, plan, names, clock.now_ms() / 1000)
    broker = kafka(args.bootstrap)
    worker = SinkWorker(
        plan, broker, names, target, clock, sink_metrics(registry, plan), once=args.once
    )
    try:
        role = WithTarget(Alone(worker, until_over=args.once), target)
        run_service([role], registry, http)
    finally:
        broker.close()
    _summary(worker.totals, target.name)
    if args.once and not worker.totals.at_end:
        raise FatalError(_INTERRUPTED)


def _store_plans(args: argparse.Namespace, target: Target, http: HttpConfig) -> None:
    """Store the results of every plan of a folder until a signal comes."""
    from calmstream.many_plans import ManyPlans, Namespaces

    clock, registry = SystemClock(), new_registry()
    folder = _folder(args, clock, registry)
    where = Namespaces(args.namespace, args.output_namespace)
    with closing(kafka(args.bootstrap, fetch_wait_seconds=FETCH_WAIT_SECONDS)) as broker:
        many = ManyPlans(folder, broker, clock, registry, where)
        run_service([folder, many.sink(target, load(TallyConfig))], registry, http)


def _store_plans_once(args: argparse.Namespace, target: Target, http: HttpConfig) -> None:
    """Store what is published now of every plan of a folder, one plan after another."""
    clock, registry = SystemClock(), new_registry()
    folder = _folder(args, clock, registry)
    broker = kafka(args.bootstrap)

    def worker(plan: Plan) -> SinkWorker:
        names = plan_names(plan, args.namespace, args.output_namespace)
        return SinkWorker(
            plan, broker, names, target, clock, sink_metrics(registry, plan), once=True
        )

    role = OnceForEach(folder.plans.values(), worker, target, clock)
    try:
        run_service([role], registry, http)
    finally:
        broker.close()
    _summary(role.totals, target.name)
    for name, why in role.failed.items():
        print(f"{name}: {why}", file=sys.stderr)  # noqa: T201 - this is the interface
    if not role.totals.at_end:
        raise FatalError(_INTERRUPTED)
    if role.failed or folder.refused:
        count = f"plans: {len(role.failed)}, refused files: {len(folder.refused)}"
        raise FatalError(f"not everything was stored: {count}; run it again when they are repaired")


def _folder(
    args: argparse.Namespace, clock: SystemClock, registry: CollectorRegistry
) -> PlanFolder:
    from calmstream.many_plans import read_folder

    return read_folder(args, clock, registry, publishes=True)


def _http(args: argparse.Namespace) -> HttpConfig:
    """Return the settings of web server and log.

    With ``--once`` there are no web server and no log lines below warnings, unless they are asked
    for: a person waits for the one line at the end.
    """
    port, level = args.http_port, args.log_level
    if args.once and port is None and variable("http_port") not in os.environ:
        port = -1
    if args.once and level is None and variable("log_level") not in os.environ:
        level = "warning"
    return load(HttpConfig, http_host=args.http_host, http_port=port, log_level=level)


def _summary(done: SinkTotals, target: str) -> None:
    print(  # noqa: T201 - this is the interface
        f"{target}: {done.stored:,} sets stored with {done.rows:,} rows; "
        f"{done.read - done.stored:,} skipped, stored before or outdated",
        file=sys.stderr,
    )
