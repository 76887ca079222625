"""``calmstream changes``: which tables changed, from kept counts."""

from __future__ import annotations

import argparse
from contextlib import ExitStack

from calmstream import arguments, result_options
from calmstream.common.errors import InvalidInput
from calmstream.consumer.read.changes import (
    changes,
    changes_of_plans,
    require_same_domain,
    with_modelled,
)
from calmstream.output import say_json
from calmstream.pages.changes import show
from calmstream.terminal import Console

_SHOWN = 20


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Test for every published table whether the people of some windows answer "
        "differently from those of others, from the counts that the publisher keeps. The tests use "
        "raw counts and account for their noise; they cost no privacy. Joins no consumer group and "
        "writes nothing."
    )
    result_options.add_results(parser)
    parser.add_argument(
        "--window",
        metavar="WINDOWS",
        help="windows to test: latest (the default), I, I..J or DATE..DATE; with --other-plan "
        "total, all windows, is the default",
    )
    parser.add_argument(
        "--against",
        metavar="WINDOWS",
        help="previous (the window before, the default), before (all windows before), I..J or "
        "DATE..DATE; with --other-plan windows of that plan, total by default",
    )
    parser.add_argument(
        "--other-plan",
        metavar="FILE",
        help="test against another plan over the same attributes, such as the other half of an "
        "A/B test",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--limit",
        type=arguments.positive,
        default=_SHOWN,
        metavar="N",
        help="changed tables that are listed (default: %(default)s)",
    )


def run(args: argparse.Namespace) -> int:
    plan = arguments.load_plan(args.plan)
    other = None if args.other_plan is None else arguments.load_plan(args.other_plan)
    if other is not None:
        require_same_domain(plan, other)
        if not set(plan.marginals) & set(other.marginals):
            raise InvalidInput("the plans publish no table over the same attributes")
    with ExitStack() as stack:
        history = stack.enter_context(result_options.history(args, plan))
        if other is None:
            found = changes(history, args.window or "latest", args.against or "previous")
        else:
            second = stack.enter_context(result_options.history(args, other))
            windows = args.window or "total", args.against or "total"
            found = changes_of_plans(history, second, *windows)
        if args.json:  # programs also get the differences of fitted tables, which no test uses
            say_json(with_modelled(found).to_json())
        else:
            show(Console(), found, args.limit)
    return 0
