"""Compute a table over any attributes of the plan, published or not, from the kept counts.

A question costs no privacy. Joins no consumer group and writes nothing.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

from calmstream import arguments, result_options
from calmstream.common.errors import InvalidInput
from calmstream.consumer.read.formats import FORMATS
from calmstream.consumer.read.history import Answer
from calmstream.consumer.read.question import Question
from calmstream.consumer.read.summary import Summary
from calmstream.consumer.read.words import WordShares
from calmstream.estimators.analysis.grouping import parse
from calmstream.estimators.plan import Plan
from calmstream.pages import answer as page

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
    question = _question(args, plan)
    question.check(plan)
    people = args.format == TABLE
    with result_options.history(args, plan) as history:
        found = question.answer(history)
        # People see the change beside the table, programs the change alone.
        beside = people and question.minus is not None
        table = replace(question, minus=None).answer(history) if beside else found
    with result_options.output(args) as (out, console):
        if not people:
            out.write(FORMATS[args.format](found))
        elif isinstance(table, Summary):
            page.show_summary(console, table)
        elif isinstance(table, WordShares):
            page.show_words(console, table)
        else:
            change = found if beside and isinstance(found, Answer) else None
            page.show(console, table, args.where, change)
    return 0


def _question(args: argparse.Namespace, plan: Plan) -> Question:
    names = result_options.attributes(plan.domain, args.attributes)
    given = result_options.attributes(plan.domain, args.given)
    if args.candidates is not None:
        if names or args.summary or args.where or args.group or args.minus is not None:
            raise InvalidInput("--candidates: with --windows and --given only")
        name, words = _candidates(args.candidates)
        return Question((name,), args.windows, given=given, candidates=words)
    if not names:
        raise InvalidInput("--attributes or --candidates: state what is asked")
    for text in args.where:
        if not parse(text, plan.domain):
            raise InvalidInput(f"--where {text!r}: expected ATTRIBUTE=LABELS")
    if args.summary and args.format not in (TABLE, "json"):
        raise InvalidInput("--format: a summary comes as table or json")
    where = ";".join(args.where)
    return Question(names, args.windows, args.minus, args.group, given, where, args.summary)


def _candidates(text: str) -> tuple[str, tuple[str, ...]]:
    name, equals, path = text.partition("=")
    if not (name and equals and path):
        raise InvalidInput(f"--candidates {text!r}: expected ATTRIBUTE=FILE")
    raw = arguments.read_file(path, MAX_LIST_BYTES + 1)
    if len(raw) > MAX_LIST_BYTES:
        raise InvalidInput(f"{path}: over {MAX_LIST_BYTES >> 20} MB; ask in several lists")
    try:
        return name, tuple(raw.decode("utf-8-sig").splitlines())
    except UnicodeDecodeError:
        raise InvalidInput(f"{path}: not UTF-8 text, one word a line") from None
