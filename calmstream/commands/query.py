"""``calmstream query``: any table of a plan, from its kept counts."""

from __future__ import annotations

import argparse
import sys
from contextlib import closing

from calmstream import arguments
from calmstream.common.errors import InvalidInput
from calmstream.connect import kafka
from calmstream.consumer.read.history import History
from calmstream.consumer.read.summary import split, summary
from calmstream.estimators.analysis.grouping import parse
from calmstream.estimators.plan import Plan
from calmstream.pages import summary as summary_page
from calmstream.pages import table_tests
from calmstream.pages.answer import FORMATS, TABLE


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.description = (
        "Compute a table over any attributes of the plan, published or not, from the "
        "counts that the publisher keeps. A question costs no privacy. Joins no consumer group and "
        "writes nothing."
    )
    arguments.add_plan(parser)
    arguments.add_broker(parser)
    arguments.add_output_namespace(parser)
    _add_question(parser)
    parser.add_argument(
        "--format", choices=sorted(FORMATS), default=TABLE, help="default: %(default)s"
    )


def _add_question(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--attributes",
        type=arguments.names,
        required=True,
        metavar="A,B",
        help="attributes of the table",
    )
    parser.add_argument(
        "--windows",
        default="total",
        metavar="WINDOWS",
        help="total (all windows, the default), latest, I, I..J or DATE..DATE",
    )
    parser.add_argument(
        "--minus",
        metavar="WINDOWS",
        help="subtract the table of these windows, which are none of the others",
    )
    parser.add_argument(
        "--group",
        default="",
        metavar="GROUPS",
        help="put labels together: 'region=EU|US,other;age=17-30|31-50|51+'",
    )
    parser.add_argument(
        "--given",
        type=arguments.names,
        metavar="A",
        default=(),
        help="proportions within each value of these attributes",
    )
    parser.add_argument(
        "--summary",
        type=arguments.names,
        metavar="S",
        help="instead of the table, statistics of an ordered attribute: mean, median, q0.9 (a "
        "quantile), share:LOW..HIGH; rank: the rank correlation of two",
    )


def run(args: argparse.Namespace) -> int:
    """Ask and print."""
    plan = arguments.load_plan(args.plan)
    # Mistakes that need no broker are reported without one.
    plan.domain.index(args.attributes)
    parse(args.group, plan.domain)
    if args.summary:
        _check_summary(args, plan)
    if args.given and not set(args.given) < set(args.attributes):
        raise InvalidInput("--given: name some, not all, of the attributes of --attributes")
    with (
        closing(kafka(args.bootstrap)) as broker,
        History(
            plan, broker, namespace=args.namespace, output_namespace=args.output_namespace
        ) as history,
    ):
        shown = _answered(args, plan, history)
    sys.stdout.buffer.write(shown)
    return 0


def _check_summary(args: argparse.Namespace, plan: Plan) -> None:
    split(plan.domain, args.attributes, args.given, args.summary)
    if args.minus is not None:
        raise InvalidInput("--minus: a summary is of the windows of --windows alone")
    if args.format not in summary_page.FORMATS:
        raise InvalidInput(f"--format: a summary comes as {' or '.join(summary_page.FORMATS)}")


def _answered(args: argparse.Namespace, plan: Plan, history: History) -> bytes:
    options = {"group": args.group, "given": args.given}
    if args.summary:
        found = summary(
            history, plan, args.attributes, args.windows, statistics=args.summary, **options
        )
        return summary_page.FORMATS[args.format](plan, found)
    if args.minus is not None:
        answer = history.difference(args.attributes, args.windows, args.minus, **options)
        return FORMATS[args.format](plan, answer)
    answer = history.ask(args.attributes, args.windows, **options)
    shown = FORMATS[args.format](plan, answer)
    if args.format == TABLE and not args.group and len(answer.windows[0]) == 1:
        record = history.tests(answer.windows[0].first)
        tests = table_tests.lines(plan, args.attributes, record)
        shown += "".join(f"{line}\n" for line in tests).encode()
    return shown
