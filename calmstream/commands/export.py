"""Write the published snapshots and exit.

By default the newest final one, with --from-window 0 all. Rows have the columns of calmstream sink;
with --format json there is one object for each snapshot.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from calmstream import arguments, result_options
from calmstream.common.errors import InvalidInput
from calmstream.consumer.read.formats import WRITERS
from calmstream.consumer.subscribe.assembler import Snapshot
from calmstream.estimators.wire.snapshot import Kind
from calmstream.output import say
from calmstream.pages.export import only, write_rows, write_snapshots


def add(parser: argparse.ArgumentParser) -> None:
    arguments.add(parser, *arguments.RESULTS, "--marginal")
    result_options.add_output(parser, tuple(WRITERS))
    result_options.add_snapshots(parser, kind=Kind.FINAL, from_window="latest")
    parser.add_argument(
        "--summaries",
        action="store_true",
        help="instead of the cells, the statistics of the tables, one row each; for plans with "
        "summaries",
    )


def run(args: argparse.Namespace) -> int:
    plan = arguments.load_plan(args.plan)
    result_options.choose_format(args)
    marginal = result_options.published(plan, args)
    if args.summaries and not plan.summaries:
        raise InvalidInput("--summaries: this plan publishes none; calmstream query --summary asks")
    count = 0

    def chosen() -> Iterator[Snapshot]:
        nonlocal count
        for snapshot in snapshots:
            count += 1
            yield only(snapshot, marginal)

    with (
        result_options.snapshots(args, plan, follow=False) as snapshots,
        result_options.output(args) as (out, _),
    ):
        if args.format == "json" and not args.summaries:
            write_snapshots(chosen(), out)
        else:
            namespace = args.output_namespace or args.namespace
            write_rows(namespace, chosen(), out, args.format, statistics=args.summaries)
    say(f"{count:,} snapshot{'s' * (count != 1)}", error=True)
    return 0
