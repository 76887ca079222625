"""``calmstream export``: snapshots of a plan as CSV, JSON lines, Parquet or Arrow."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from calmstream import arguments
from calmstream.common.errors import InvalidInput
from calmstream.connect import kafka
from calmstream.consumer.subscribe.assembler import Snapshot
from calmstream.consumer.subscribe.subscribe import subscribe
from calmstream.estimators.wire.snapshot import Kind
from calmstream.pages.export import FORMATS, STATISTICS_FORMATS

BINARY = ("arrow", "parquet")
"""Formats that are bytes, not text, and need the package pyarrow."""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.description = (
        "Write the published snapshots and exit: by default the newest final one, with "
        "--from-window 0 all."
    )
    arguments.add_plan(parser)
    arguments.add_broker(parser)
    arguments.add_output_namespace(parser)
    parser.add_argument(
        "--format",
        choices=sorted((*FORMATS, *BINARY)),
        default="csv",
        help="default: %(default)s; parquet and arrow have the columns of calmstream sink",
    )
    parser.add_argument(
        "--kind",
        choices=[kind.value for kind in Kind],
        default=Kind.FINAL.value,
        help="kind of snapshot (default: %(default)s)",
    )
    parser.add_argument(
        "--from-window",
        type=arguments.from_window,
        default="latest",
        metavar="W",
        help="this window and all later ones; 0: all; latest: only the newest (the default)",
    )
    parser.add_argument(
        "--marginal", type=arguments.names, metavar="A,B", help="only this table (default: all)"
    )
    parser.add_argument(
        "--summaries",
        action="store_true",
        help="instead of the cells, the statistics of the tables, one row each; for plans with "
        "summaries",
    )
    parser.add_argument(
        "--out", metavar="FILE", help="write to this file (default: standard output)"
    )


def run(args: argparse.Namespace) -> int:
    """Read to the end and write."""
    plan = arguments.load_plan(args.plan)
    if args.marginal is not None and plan.domain.index(args.marginal) not in plan.marginals:
        raise InvalidInput(f"--marginal: {','.join(args.marginal)} is not published by this plan")
    if args.summaries and not plan.summaries:
        raise InvalidInput("--summaries: this plan publishes none; calmstream query --summary asks")
    write = _writer(args)
    with closing(kafka(args.bootstrap)) as broker:
        snapshots = subscribe(
            plan,
            broker,
            kinds=(Kind(args.kind),),
            from_window=args.from_window,
            follow=False,
            namespace=args.namespace,
            output_namespace=args.output_namespace,
        )
        with _output(args) as out:
            count = write(snapshots, out)
    print(f"{count:,} snapshot{'s' * (count != 1)}", file=sys.stderr)  # noqa: T201 - this is the interface
    return 0


def _writer(args: argparse.Namespace) -> Callable[[Iterable[Snapshot], Any], int]:
    """Return the function that writes the chosen format."""
    if args.format not in BINARY:
        texts = STATISTICS_FORMATS if args.summaries else FORMATS
        return lambda snapshots, out: texts[args.format](snapshots, out, args.marginal)
    if args.out is None and sys.stdout.isatty():
        raise InvalidInput(f"--format {args.format} is not text: state a file with --out FILE")
    try:
        from calmstream.pages.export_columns import BINARY_FORMATS, BINARY_STATISTICS
    except ModuleNotFoundError:
        raise InvalidInput(
            f"--format {args.format} needs the package pyarrow, which is not installed: "
            "pip install 'calmstream[service]'"
        ) from None
    namespace = args.output_namespace or args.namespace
    formats = BINARY_STATISTICS if args.summaries else BINARY_FORMATS
    return lambda snapshots, out: formats[args.format](snapshots, out, args.marginal, namespace)


@contextmanager
def _output(args: argparse.Namespace) -> Iterator[Any]:
    """Open the output, as bytes or as text."""
    if args.out is None:
        yield sys.stdout.buffer if args.format in BINARY else sys.stdout
        return
    try:
        if args.format in BINARY:
            with Path(args.out).open("wb") as out:
                yield out
        else:
            with Path(args.out).open("w", encoding="utf-8", newline="") as text:
                yield text
    except OSError as error:
        raise InvalidInput(f"--out {args.out}: {error.strerror}") from None
