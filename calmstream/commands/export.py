"""``calmstream export``: snapshots of a plan as CSV or JSON lines."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from calmstream import arguments
from calmstream.connect import kafka
from calmstream.pages.export import FORMATS
from consumer.subscribe.subscribe import subscribe
from estimators.errors import InvalidInput
from estimators.wire.snapshot import Kind


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = commands.add_parser(
        "export",
        help="write snapshots as CSV or JSON lines",
        description="Write the published snapshots and exit: by default the newest final one, with "
        "--from-window 0 all.",
    )
    arguments.add_plan(parser)
    arguments.add_broker(parser)
    arguments.add_output_namespace(parser)
    parser.add_argument(
        "--format", choices=sorted(FORMATS), default="csv", help="default: %(default)s"
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
        "--out", metavar="FILE", help="write to this file (default: standard output)"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Read to the end and write."""
    plan = arguments.load_plan(args.plan)
    if args.marginal is not None and plan.domain.index(args.marginal) not in plan.marginals:
        raise InvalidInput(f"--marginal: {','.join(args.marginal)} is not published by this plan")
    broker = kafka(args.bootstrap)
    try:
        snapshots = subscribe(
            plan,
            broker,
            kinds=(Kind(args.kind),),
            from_window=args.from_window,
            follow=False,
            namespace=args.namespace,
            output_namespace=args.output_namespace,
        )
        with _output(args.out) as out:
            count = FORMATS[args.format](snapshots, out, args.marginal)
    finally:
        broker.close()
    print(f"{count:,} snapshot{'s' * (count != 1)}", file=sys.stderr)  # noqa: T201 - this is the interface
    return 0


@contextmanager
def _output(path: str | None) -> Iterator[TextIO]:
    if path is None:
        yield sys.stdout
        return
    try:
        with Path(path).open("w", encoding="utf-8", newline="") as out:
            yield out
    except OSError as error:
        raise InvalidInput(f"--out {path}: {error.strerror}") from None
