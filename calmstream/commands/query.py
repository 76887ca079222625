"""``calmstream query``: any table of a plan, from its kept counts."""

from __future__ import annotations

import argparse
import sys

from calmstream import arguments
from calmstream.connect import kafka
from calmstream.pages.answer import FORMATS
from consumer.read.history import History
from estimators.analysis.grouping import parse
from estimators.errors import InvalidInput


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = commands.add_parser(
        "query",
        help="answer a question about any attributes and windows from kept counts",
        description="Compute a table over any attributes of the plan, published or not, from the "
        "counts that the publisher keeps. A question costs no privacy. Joins no consumer group and "
        "writes nothing.",
    )
    arguments.add_plan(parser)
    arguments.add_broker(parser)
    arguments.add_output_namespace(parser)
    _add_question(parser)
    parser.add_argument(
        "--format", choices=sorted(FORMATS), default="table", help="default: %(default)s"
    )
    parser.set_defaults(run=run)


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


def run(args: argparse.Namespace) -> int:
    """Ask and print."""
    plan = arguments.load_plan(args.plan)
    # Mistakes that need no broker are reported without one.
    plan.domain.index(args.attributes)
    parse(args.group, plan.domain)
    if args.given and not set(args.given) < set(args.attributes):
        raise InvalidInput("--given: name some, not all, of the attributes of --attributes")
    broker = kafka(args.bootstrap)
    try:
        with History(
            plan, broker, namespace=args.namespace, output_namespace=args.output_namespace
        ) as history:
            options = {"group": args.group, "given": args.given}
            if args.minus is None:
                answer = history.ask(args.attributes, args.windows, **options)
            else:
                answer = history.difference(args.attributes, args.windows, args.minus, **options)
        shown = FORMATS[args.format](plan, answer)
    finally:
        broker.close()
    sys.stdout.buffer.write(shown)
    return 0
