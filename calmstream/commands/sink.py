"""Follow the snapshots topic and store every complete set of tables until SIGTERM or SIGINT.

One row for each cell. A set is stored as a whole or not at all, and a newer one replaces it. At a
start nothing is lost or doubled. Joins no consumer group. With --plans a fault of one plan stops
only this plan; it is tried again.
"""

from __future__ import annotations

import argparse
import os
from contextlib import closing

from calmstream import arguments
from calmstream.common.errors import FatalError
from calmstream.common.settings import load, variable
from calmstream.connect import names_of, opened
from calmstream.consumer.runtime.config import TallyConfig
from calmstream.consumer.sink.target import Target, target_of
from calmstream.consumer.sink.worker import store_once
from calmstream.output import say
from calmstream.process import Process
from calmstream.service import Service, accepted_plans, fetch_limits, noted, served_plans


def add(parser: argparse.ArgumentParser) -> None:
    arguments.add_plans(parser)
    arguments.add(parser, "--once", help="store what is published now and exit, without /metrics")
    arguments.add(parser, *arguments.HTTP)
    parser.add_argument(
        "--to",
        required=True,
        metavar="TARGET",
        help="postgresql://[USER@]HOST[:PORT]/DATABASE (password: PGPASSWORD or ~/.pgpass), "
        "parquet:DIR",
    )


def run(args: argparse.Namespace) -> int:
    # A person waits for the one line of --once: no log lines below warnings.
    quiet = args.once and variable("log_level") not in os.environ
    process = Process(args, "warning" if quiet else None)
    target = target_of(args.to)
    if args.once:
        return _once(args, target)
    plans = served_plans(args, process.registry, publishes=True)
    with opened(args, **fetch_limits(args)) as broker:
        service = Service(plans, broker, process.registry, **arguments.spaces(args))
        process.run(*service.roles, service.sink(target, load(TallyConfig)))
    return 0


def _once(args: argparse.Namespace, target: Target) -> int:
    """Store what is published now, of one plan after another; a fault of one leaves the others."""
    plans, failed = accepted_plans(args)
    read = sets = rows = 0
    with opened(args) as broker, closing(target):
        target.open()
        for plan in (one.plan for one in plans):
            with noted(args, plan, failed):
                found, done = store_once(plan, broker, names_of(args, plan), target)
                read, sets, rows = read + found, sets + done.sets, rows + done.rows
    say(
        f"{target.name}: {sets:,} sets stored with {rows:,} rows; "
        f"{read - sets:,} skipped, stored before or outdated",
        *(f"{name}: {why}" for name, why in failed.items()),
        error=True,
    )
    if failed:
        raise FatalError(
            f"not everything was stored: {len(failed)} plans or files are left; "
            "run it again when they are repaired"
        )
    return 0
