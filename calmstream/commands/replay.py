"""``calmstream replay``: counts windows again from the log, with rejected records on request."""

from __future__ import annotations

import argparse
import json
from contextlib import closing
from dataclasses import asdict

from calmstream import arguments
from calmstream.common.clock import SystemClock
from calmstream.common.errors import Reason
from calmstream.connect import kafka
from calmstream.consumer.operations.replay import NEVER_ADMITTED, ReplayResult, replay
from calmstream.consumer.subscribe.subscribe import plan_names
from calmstream.terminal import Console

_ADMISSIBLE = [reason.value for reason in Reason if reason not in NEVER_ADMITTED]


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Read the reports topics once and publish the windows that every partition "
        "has closed into the snapshots topic of a new namespace. Existing results stay unchanged. "
        "With --admit, records rejected for the given reasons are counted too, unless their batch "
        "was counted already. For logs too long for one process use calmstream consume "
        "--output-namespace with any number of workers."
    )
    arguments.add_plan(parser)
    arguments.add_broker(parser)
    parser.add_argument(
        "--output-namespace", required=True, metavar="NS", help="new namespace of the result"
    )
    parser.add_argument(
        "--from-window",
        type=int,
        default=0,
        metavar="W",
        help="first window (default: %(default)s)",
    )
    parser.add_argument(
        "--to-window", type=int, metavar="W", help="last window (default: the last closed one)"
    )
    parser.add_argument(
        "--admit",
        type=_reasons,
        default=(),
        metavar="REASON,..",
        help=f"count records rejected for these reasons: {', '.join(_ADMISSIBLE)}",
    )
    parser.add_argument(
        "--no-tests", action="store_true", help="write no tests of change between windows"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Run the replay and print its result."""
    plan = arguments.load_plan(args.plan)
    with closing(kafka(args.bootstrap)) as broker:
        done = replay(
            plan,
            broker,
            plan_names(plan, args.namespace),
            plan_names(plan, args.namespace, args.output_namespace),
            SystemClock(),
            first=args.from_window,
            last=args.to_window,
            admit=args.admit,
            test_changes=not args.no_tests,
        )
    if args.json:
        print(json.dumps(asdict(done)))  # noqa: T201 - this is the interface
    else:
        _show(done, args.output_namespace)
    return 0


def _show(done: ReplayResult, namespace: str) -> None:
    console = Console(soft_wrap=True)
    kinds = "finals and totals" if done.totals else "finals (totals need the log from its start)"
    console.print(
        f"windows {done.windows[0]} to {done.windows[-1]} published into {namespace}: {kinds}, "
        f"{done.reports:,} reports"
    )
    for title, counts in (("counted after all", done.admitted), ("still refused", done.refused)):
        if counts:
            listed = ", ".join(f"{reason} {count:,}" for reason, count in counts.items())
            console.print(f"rejected records {title}: {listed}")


def _reasons(text: str) -> tuple[Reason, ...]:
    wanted = arguments.names(text)
    for reason in wanted:
        if reason not in _ADMISSIBLE:
            raise argparse.ArgumentTypeError(
                f"expected some of {', '.join(_ADMISSIBLE)}, got {reason!r}"
            )
    return tuple(Reason(reason) for reason in wanted)
