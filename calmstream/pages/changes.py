"""What ``calmstream changes`` prints for people."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np

from calmstream.consumer.read.changes import Changes
from calmstream.consumer.read.history import Counted
from calmstream.estimators.changes import ComparedTable
from calmstream.estimators.changes.compare import ALPHA
from calmstream.estimators.domain import Domain
from calmstream.estimators.marginal import Z95
from calmstream.terminal import Console, grid

_SMALL = 0.05  # p-value of dependence below which the kind of a change is called that


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
    value, half = 100 * table.difference[cell], 100 * Z95 * table.stderr[cell]
    return ", ".join(labels), f"{value:+.2f}", f"{half:.2f}"


def _kind(table: ComparedTable) -> str:
    if table.dependence is None:
        return "margin" if len(table.attributes) == 1 else "-"
    return "dependence" if table.dependence < _SMALL else "margins"


def _tables(count: int) -> str:
    return "1 table" if count == 1 else f"{count} tables"


def _order(table: ComparedTable) -> tuple[float, int]:
    return (table.adjusted if table.adjusted is not None else 1.0, len(table.attributes))
