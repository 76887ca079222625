"""``calmstream export``: snapshots of a plan as CSV, JSON lines, Parquet or Arrow."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing

from calmstream import arguments, result_options
from calmstream.common.errors import InvalidInput
from calmstream.connect import kafka
from calmstream.consumer.sink.stored import StoredSet
from calmstream.consumer.subscribe.assembler import Snapshot
from calmstream.consumer.subscribe.subscribe import subscribe
from calmstream.estimators.wire.snapshot import Kind
from calmstream.pages.export import WRITERS, records, write_rows, write_snapshots


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Write the published snapshots and exit: by default the newest final one, with "
        "--from-window 0 all. Rows have the columns of calmstream sink; with --format json there "
        "is one object for each snapshot."
    )
    result_options.add_results(parser)
    result_options.add_output(parser, tuple(WRITERS), "csv")
    result_options.add_kind(parser, Kind.FINAL)
    parser.add_argument(
        "--from-window",
        type=result_options.from_window,
        default="latest",
        metavar="W",
        help="this window and all later ones; 0: all; latest: only the newest (the default)",
    )
    result_options.add_marginal(parser)
    parser.add_argument(
        "--summaries",
        action="store_true",
        help="instead of the cells, the statistics of the tables, one row each; for plans with "
        "summaries",
    )


def run(args: argparse.Namespace) -> int:
    """Read to the end and write."""
    plan = arguments.load_plan(args.plan)
    result_options.choose_format(args)
    marginal = result_options.published(plan, args)
    if args.summaries and not plan.summaries:
        raise InvalidInput("--summaries: this plan publishes none; calmstream query --summary asks")
    count = 0

    def counted(snapshots: Iterable[Snapshot]) -> Iterator[Snapshot]:
        nonlocal count
        for snapshot in snapshots:
            count += 1
            yield snapshot

    with closing(kafka(args.bootstrap)) as broker:
        snapshots = counted(
            subscribe(
                plan,
                broker,
                kinds=(Kind(args.kind),),
                from_window=args.from_window,
                follow=False,
                namespace=args.namespace,
                output_namespace=args.output_namespace,
            )
        )
        with result_options.output(args) as out:
            if args.format == "json" and not args.summaries:
                write_snapshots(snapshots, out.binary, marginal)
            else:
                namespace = args.output_namespace or args.namespace
                sets = (
                    StoredSet(namespace, each.manifest, tuple(records(each, marginal)))
                    for each in snapshots
                )
                write_rows(sets, out.binary, args.format, statistics=args.summaries)
    print(f"{count:,} snapshot{'s' * (count != 1)}", file=sys.stderr)  # noqa: T201 - the interface
    return 0
