"""``calmstream analyse``: association and tests of independence from the newest snapshot."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from contextlib import closing

import orjson

from calmstream import arguments, result_options
from calmstream.common.errors import RecoverableError
from calmstream.connect import kafka
from calmstream.consumer.subscribe.assembler import Snapshot
from calmstream.consumer.subscribe.subscribe import subscribe
from calmstream.estimators.wire.snapshot import Kind
from calmstream.pages import analyse, tree
from calmstream.terminal import Console


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Show for every published pair the mutual information, Cramér's V and a test of "
        "independence that accounts for the noise, and the Chow-Liu tree. The tests need a plan "
        "made with --summaries association. calmstream query --given shows shares within groups."
    )
    result_options.add_results(parser)
    result_options.add_kind(parser, Kind.TOTAL)
    parser.add_argument("--window", type=int, metavar="W", help="window (default: the newest)")
    parser.add_argument(
        "--tree",
        action="store_true",
        help="add the joint distribution: the shares of each attribute's labels given its parent "
        "in the tree",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Read the newest set and show it."""
    plan = arguments.load_plan(args.plan)
    with closing(kafka(args.bootstrap)) as broker:
        found = _newest(
            subscribe(
                plan,
                broker,
                kinds=(Kind(args.kind),),
                from_window="latest" if args.window is None else args.window,
                follow=False,
                namespace=args.namespace,
                output_namespace=args.output_namespace,
            ),
            args.window,
        )
    if found is None:
        raise RecoverableError(f"there is no {args.kind} snapshot with tables to analyse yet")
    if args.json:
        joint = {"joint": tree.joint(found)} if args.tree else {}
        sys.stdout.buffer.write(orjson.dumps(analyse.document(found) | joint) + b"\n")
        return 0
    console = Console()
    console.print(analyse.render(found))
    if args.tree:
        console.print(tree.render(found))
    return 0


def _newest(snapshots: Iterable[Snapshot], window: int | None) -> Snapshot | None:
    """Return the last snapshot with tables, of the given window if there is one."""
    newest = None
    for snapshot in snapshots:
        if snapshot.marginals and window in (None, snapshot.window):
            newest = snapshot
    return newest
