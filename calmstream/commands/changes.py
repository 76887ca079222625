"""Test which published tables changed, from the counts that the publisher keeps.

Do the people of some windows answer differently from those of others? The tests use raw counts and
account for their noise; they cost no privacy. Joins no consumer group and writes nothing.
"""

from __future__ import annotations

import argparse
from collections import Counter
from contextlib import ExitStack
from itertools import product

import numpy as np

from calmstream import arguments, result_options
from calmstream.consumer.read.changes import Changes, changes, changes_of_plans, with_modelled
from calmstream.consumer.read.kept import Counted
from calmstream.estimators.changes import ComparedTable
from calmstream.estimators.changes.compare import ALPHA
from calmstream.estimators.domain import Domain
from calmstream.output import say_json
from calmstream.pages.watch import in_percent
from calmstream.terminal import Console, grid

_SHOWN = 20
_SMALL = 0.05  # p-value of dependence below which the kind of a change is called that


def add(parser: argparse.ArgumentParser) -> None:
    arguments.add(parser, *arguments.RESULTS, "--json")
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


def show(console: Console, found: Changes, most: int) -> None:
    total, tables, domain = found.comparison, found.comparison.tables, found.after.plan.domain
    console.print(f"{_side(found.after)}\nagainst {_side(found.before)}")
    if found.flags:
        console.print(f"flags: {', '.join(found.flags)}")
    changed = sorted((t for t in tables if t.changed), key=_order)
    if total.tested:
        console.print(
            f"{total.changed} of {_tables(total.tested)} changed; smallest adjusted p-value "
            f"{total.smallest:.2g} (alert below {ALPHA:g})"
        )
    else:
        console.print("no table could be tested")
    if changed:
        shown = grid("changed", "of", "largest change", right=("points", "± 95 %", "p"))
        for table in changed[:most]:
            names = " × ".join(domain.names[i] for i in table.attributes)
            shown.add_row(names, _kind(table), *_largest(table, domain), f"{table.adjusted:.1g}")
        console.print("", shown)
    if len(changed) > most:
        console.print(f"{_tables(len(changed) - most)} more changed: --limit")
    for reason, count in sorted(Counter(t.reason for t in tables if t.reason).items()):
        console.print(f"{_tables(count)} not tested: {reason}")
    if partial := sum(bool(t.uncovered) and not t.reason for t in tables):
        console.print(f"{_tables(partial)} tested in part: no view has all of the attributes")


def _side(counted: Counted) -> str:
    reports = sum(tally.reports for tally in counted.tallies)
    return f"{counted.plan.name}-{counted.plan.digest[:8]}, {counted.windows}: {reports:,} reports"


def _largest(table: ComparedTable, domain: Domain) -> tuple[str, str, str]:
    """Return the cell with the largest change in standard errors, and its change."""
    if table.difference is None or table.stderr is None:
        return "", "", ""
    scaled = np.abs(table.difference) / np.where(table.stderr > 0, table.stderr, np.inf)
    cell = int(np.argmax(scaled))
    labels = list(product(*(domain.attributes[i].labels for i in table.attributes)))[cell]
    return ", ".join(labels), *in_percent(table.difference[cell], table.stderr[cell], "+")


def _kind(table: ComparedTable) -> str:
    if table.dependence is None:
        return "margin" if len(table.attributes) == 1 else "-"
    return "dependence" if table.dependence < _SMALL else "margins"


def _tables(count: int) -> str:
    return "1 table" if count == 1 else f"{count} tables"


def _order(table: ComparedTable) -> tuple[float, int]:
    return (table.adjusted if table.adjusted is not None else 1.0, len(table.attributes))
