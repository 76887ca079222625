"""Write the published snapshots and exit.

By default the newest final one, with --from-window 0 all. Rows have the columns of calmstream sink;
with --format json there is one object for each snapshot.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any, BinaryIO

import orjson

from calmstream import arguments, result_options
from calmstream.common.errors import InvalidInput
from calmstream.consumer.read.formats import WRITERS
from calmstream.consumer.subscribe.arrow_rows import (
    RESULTS,
    STATISTICS,
    results_table,
    statistics_table,
)
from calmstream.consumer.subscribe.assembler import Snapshot
from calmstream.consumer.subscribe.subscribe import together
from calmstream.estimators.wire.snapshot import Kind, MarginalRecord
from calmstream.output import say

_ROWS, _SETS = 1 << 17, 500  # numbers of cells and of snapshots that are written together

_OF_TABLE = ("attributes", "labels", "table", "stderr", "noise_floor", "reports", "flags")


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
            yield _only(snapshot, marginal)

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


def write_snapshots(sets: Iterable[Snapshot], out: BinaryIO) -> None:
    """Write one JSON object for each snapshot: its manifest, and its tables as ``marginals``."""
    for one in sets:
        tables = [_table(record) for record in one.marginals.values()]
        out.write(orjson.dumps(asdict(one.manifest) | {"marginals": tables}) + b"\n")


def write_rows(
    namespace: str,
    sets: Iterable[Snapshot],
    out: BinaryIO,
    form: str,
    *,
    statistics: bool = False,
) -> None:
    """Write one row for each cell, or statistic, with the columns of ``calmstream sink``."""
    schema, table = (STATISTICS, statistics_table) if statistics else (RESULTS, results_table)
    with WRITERS[form](out, schema) as write:
        for several in together(sets, _ROWS, _SETS):
            write(table(namespace, several))


def _only(snapshot: Snapshot, marginal: Sequence[str] | None) -> Snapshot:
    """Return a snapshot with the only table that was asked for, if one was."""
    if marginal is None or not snapshot.marginals:
        return snapshot
    record = snapshot.record(*marginal)
    return Snapshot(snapshot.manifest, {record.attributes: record})


def _table(record: MarginalRecord) -> dict[str, Any]:
    table = {name: getattr(record, name) for name in _OF_TABLE}
    return table | ({"summaries": record.summaries} if record.summaries else {})
