"""``calmstream analyse``: association and tests of independence from the newest snapshot."""

from __future__ import annotations

import argparse
from contextlib import closing
from typing import Any

from calmstream import arguments, result_options
from calmstream.broker.transport import Broker
from calmstream.common.errors import InvalidInput, RecoverableError
from calmstream.connect import kafka
from calmstream.consumer.read.causes import causes
from calmstream.consumer.read.history import History
from calmstream.consumer.read.ranges import Windows
from calmstream.consumer.subscribe.subscribe import subscribe
from calmstream.estimators.methods.base import HiddenCauses
from calmstream.estimators.plan import Plan
from calmstream.estimators.wire.snapshot import Kind
from calmstream.output import say_json
from calmstream.pages import analyse
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
    parser.add_argument(
        "--causes",
        action="store_true",
        help="add the hidden causes that the data supports: the labels that each raises and lowers",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    plan, kind = arguments.load_plan(args.plan), Kind(args.kind)
    with closing(kafka(args.bootstrap)) as broker:
        newest = None
        for snapshot in subscribe(
            plan,
            broker,
            kinds=(kind,),
            from_window="latest" if args.window is None else args.window,
            follow=False,
            **arguments.spaces(args),
        ):
            if snapshot.marginals and args.window in (None, snapshot.window):
                newest = snapshot
        if newest is None:
            raise RecoverableError(f"there is no {kind} snapshot with tables to analyse yet")
        explained = _causes(args, plan, broker, newest.window) if args.causes else []
    if args.json:
        joint = {"joint": analyse.joint(newest)} if args.tree else {}
        more = {"causes": explained} if args.causes else {}
        say_json(analyse.document(newest) | joint | more)
        return 0
    console = Console()
    console.print(analyse.render(newest))
    if args.tree:
        console.print(analyse.render_tree(newest))
    if args.causes:
        console.print(analyse.render_causes(explained))
    return 0


def _causes(
    args: argparse.Namespace, plan: Plan, broker: Broker, window: int
) -> list[dict[str, Any]]:
    kind = Kind(args.kind)
    if kind is Kind.EARLY:
        raise InvalidInput("--causes: counts are kept of final windows; use another --kind")
    total = kind is Kind.TOTAL
    windows = Windows(0 if total else window, window, total=total, current=kind is Kind.CURRENT)
    with History(plan, broker, **arguments.spaces(args)) as history:
        model, _ = history.model(windows)
    if not isinstance(model, HiddenCauses):
        raise InvalidInput(f"--causes: method {plan.method} knows no causes; noise-aware does")
    return causes(plan.domain, model)
