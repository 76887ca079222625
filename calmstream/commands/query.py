"""Compute a table over any attributes of the plan, published or not, from the kept counts.

A question costs no privacy. Joins no consumer group and writes nothing.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

from calmstream import arguments, result_options
from calmstream.common.errors import InvalidInput
from calmstream.consumer.read.formats import FORMATS
from calmstream.consumer.read.history import Answer, History
from calmstream.consumer.read.summary import Summary, split, summary
from calmstream.consumer.read.words import given_place, word_shares
from calmstream.estimators.analysis.grouping import of_question, parse
from calmstream.estimators.analysis.words import candidates
from calmstream.estimators.plan import Plan
from calmstream.pages import answer as page
from calmstream.terminal import Console

MAX_LIST_BYTES = 64 << 20  # maximum size of a list of candidates

TABLE = "table"  # the format for people


def add(parser: argparse.ArgumentParser) -> None:
    arguments.add(parser, *arguments.RESULTS, "--windows")
    parser.add_argument(
        "--attributes",
        action="append",
        default=[],
        metavar="A,B",
        help='attributes of the table; may be repeated, or a JSON list ["A", "B"]',
    )
    parser.add_argument(
        "--candidates",
        metavar="A=FILE",
        help="instead of --attributes: which words of a file, one a line, devices reported for the "
        "hashed attribute A; with --given, within the labels of another attribute",
    )
    parser.add_argument(
        "--minus",
        metavar="WINDOWS",
        help="the change since these windows, which are none of the others; previous: as many "
        "just before; before: all before",
    )
    parser.add_argument(
        "--where",
        action="append",
        default=[],
        metavar="A=LABELS",
        help="only people with these labels: region=EU, region=EU,US, age=17-30; may be repeated",
    )
    parser.add_argument(
        "--given",
        action="append",
        default=[],
        metavar="A",
        help="shares within each label of these attributes",
    )
    parser.add_argument(
        "--group",
        default="",
        metavar="GROUPS",
        help="put labels together: 'region=EU|US,other;age=17-30|31-50|51+'",
    )
    parser.add_argument(
        "--summary",
        type=arguments.names,
        metavar="S",
        help="instead of the table, statistics of an ordered attribute: mean, median, q0.9 (a "
        "quantile), share:LOW..HIGH; rank: the rank correlation of two",
    )
    result_options.add_output(parser, (TABLE, *FORMATS))


def run(args: argparse.Namespace) -> int:
    plan = arguments.load_plan(args.plan)
    result_options.choose_format(args)
    _check(args, plan)
    ask = _words if args.candidates else _summary if args.summary else _table
    with result_options.history(args, plan) as history:
        found, show = ask(args, history)
    with result_options.output(args) as (out, console):
        if args.format == TABLE:
            show(console)
        else:
            out.write(FORMATS[args.format](found))
    return 0


def _check(args: argparse.Namespace, plan: Plan) -> None:
    """Find what is asked for; mistakes that need no broker are reported without one."""
    args.attributes = result_options.attributes(plan.domain, args.attributes)
    args.given = result_options.attributes(plan.domain, args.given)
    if args.candidates is not None:
        if args.attributes or args.summary or args.where or args.group or args.minus is not None:
            raise InvalidInput("--candidates: with --windows and --given only")
        args.candidates = _candidates(args.candidates)
        given_place(plan, args.candidates[0], args.given)
        return
    if not args.attributes:
        raise InvalidInput("--attributes or --candidates: state what is asked")
    plan.domain.index(args.attributes)
    for text in args.where:
        if not parse(text, plan.domain):
            raise InvalidInput(f"--where {text!r}: expected ATTRIBUTE=LABELS")
    of_question(args.group, ";".join(args.where), plan.domain)  # for its errors, as `split` below
    if args.given and not set(args.given) < set(args.attributes):
        raise InvalidInput("--given: name some, not all, of the attributes of --attributes")
    if args.summary:
        split(plan.domain, args.attributes, args.given, args.summary)
        if args.minus is not None or args.where:
            raise InvalidInput("--summary: of all people of --windows; no --minus, no --where")
        if args.format not in (TABLE, "json"):
            raise InvalidInput("--format: a summary comes as table or json")


def _candidates(text: str) -> tuple[str, list[str]]:
    name, equals, path = text.partition("=")
    if not (name and equals and path):
        raise InvalidInput(f"--candidates {text!r}: expected ATTRIBUTE=FILE")
    raw = arguments.read_file(path, MAX_LIST_BYTES + 1)
    if len(raw) > MAX_LIST_BYTES:
        raise InvalidInput(f"{path}: over {MAX_LIST_BYTES >> 20} MB; ask in several lists")
    try:
        words = raw.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise InvalidInput(f"{path}: not UTF-8 text, one word a line") from None
    candidates(words)  # for its errors
    return name, words


Found = tuple[Answer | Summary, Callable[[Console], None]]
"""What was asked for, and what shows it to people."""


def _words(args: argparse.Namespace, history: History) -> Found:
    name, words = args.candidates
    found = word_shares(history, name, words, args.windows, given=args.given)
    return found, lambda console: page.show_words(console, found)


def _summary(args: argparse.Namespace, history: History) -> Found:
    found = summary(
        history,
        args.attributes,
        args.windows,
        statistics=args.summary,
        group=args.group,
        given=args.given,
    )
    return found, lambda console: page.show_summary(console, found)


def _table(args: argparse.Namespace, history: History) -> Found:
    names, windows = args.attributes, args.windows
    part = {"group": args.group, "given": args.given, "where": ";".join(args.where)}
    change = None
    if args.minus is not None:
        change = history.difference(names, windows, args.minus, **part)
    if change is not None and args.format != TABLE:
        return change, lambda _: None
    answer = history.ask(names, windows, **part)
    return answer, lambda console: page.show(console, answer, args.where, change)
