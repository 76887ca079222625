"""``calmstream watch``: live tables with error bars from the snapshots topic."""

from __future__ import annotations

import argparse
import signal
import threading
from contextlib import ExitStack

from calmstream import arguments
from calmstream.common.errors import InvalidInput
from calmstream.connect import kafka
from calmstream.consumer.read.history import History
from calmstream.consumer.subscribe.subscribe import subscribe
from calmstream.estimators.wire.snapshot import Kind
from calmstream.pages.change_marks import with_marks
from calmstream.pages.exact_conditional import with_proportions
from calmstream.pages.watch import watch
from calmstream.terminal import Console


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.description = (
        "Follow the snapshots topic. On a terminal, show the newest window and the "
        "running total, live; elsewhere, print one block of text for each snapshot and one line "
        "for a run of windows without reports."
    )
    arguments.add_plan(parser)
    arguments.add_broker(parser)
    arguments.add_output_namespace(parser)
    parser.add_argument(
        "--marginal", type=arguments.names, metavar="A,B", help="only this published table"
    )
    parser.add_argument(
        "--given",
        type=arguments.names,
        metavar="B",
        default=(),
        help="with --marginal A,B: show the proportions of A for each value of B, P(A | B)",
    )
    parser.add_argument(
        "--kind",
        choices=[kind.value for kind in Kind],
        help="only snapshots of this kind (default: all)",
    )
    parser.add_argument(
        "--from-window",
        type=arguments.from_window,
        metavar="W",
        help="begin with this window; latest: with the newest",
    )
    parser.add_argument(
        "--changes",
        action="store_true",
        help="mark tables of finals that changed; reads the counts topic (role analyst), and waits "
        "up to ten seconds for the tests of a final",
    )
    parser.add_argument("--once", action="store_true", help="show what is published now and exit")


def run(args: argparse.Namespace) -> int:
    """Show until interrupted."""
    plan = arguments.load_plan(args.plan)
    if args.marginal is not None and plan.domain.index(args.marginal) not in plan.marginals:
        raise InvalidInput(
            f"--marginal: {','.join(args.marginal)} is not published by this plan; see "
            f"marginals in {args.plan}"
        )
    if args.given and not set(args.given) < set(args.marginal or ()):
        raise InvalidInput("--given: name some, not all, of the attributes of --marginal")
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    broker = kafka(args.bootstrap)
    stack = ExitStack()
    where = {"namespace": args.namespace, "output_namespace": args.output_namespace}
    try:
        snapshots = subscribe(
            plan,
            broker,
            kinds=tuple(Kind) if args.kind is None else (Kind(args.kind),),
            from_window=args.from_window,
            follow=not args.once,
            stop=stop,
            **where,
        )
        if args.changes:
            history = stack.enter_context(History(plan, broker, **where))
            snapshots = with_marks(snapshots, history, None if args.once else stop.wait)
        if args.given:
            history = stack.enter_context(History(plan, broker, **where))
            snapshots = with_proportions(snapshots, history, args.marginal, args.given)
        if not watch(snapshots, args.marginal, args.given, live=not args.once) and args.once:
            Console(stderr=True).print("calmstream: no such snapshot is published yet")
    finally:
        stack.close()
        broker.close()
    return 0
