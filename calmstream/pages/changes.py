"""What ``calmstream changes`` prints for people."""

from __future__ import annotations

from itertools import product

import numpy as np
from rich.table import Table

from calmstream.consumer.read.changes import Changes
from calmstream.consumer.read.history import Counted
from calmstream.estimators.changes import ComparedTable
from calmstream.estimators.changes.compare import ALPHA
from calmstream.estimators.domain import Domain
from calmstream.estimators.marginal import Z95
from calmstream.terminal import Console, grid

_SMALL = 0.05
"""P-value of the test of dependence below which the kind of a change is called dependence."""


def show(console: Console, found: Changes, most: int) -> None:
    """Print what is compared, what changed, and what could not be tested."""
    for line in _heading(found):
        console.print(line)
    changed = [t for t in found.comparison.tables if t.changed]
    if changed:
        console.print()
        console.print(_table(found, sorted(changed, key=_order)[:most]))
    for line in _rest(found, max(0, len(changed) - most)):
        console.print(line)


def _heading(found: Changes) -> list[str]:
    total = found.comparison
    lines = [_side(found.after), f"against {_side(found.before)}"]
    if found.flags:
        lines.append(f"flags: {', '.join(found.flags)}")
    if not total.tested:
        return [*lines, "no table could be tested"]
    verdict = f"{total.changed} of {_tables(total.tested)} changed"
    verdict += f"; smallest adjusted p-value {total.smallest:.2g} (alert below {ALPHA:g})"
    return [*lines, verdict]


def _side(counted: Counted) -> str:
    reports = sum(tally.reports for tally in counted.tallies)
    return f"{counted.plan.name}-{counted.plan.digest[:8]}, {counted.windows}: {reports:,} reports"


def _table(found: Changes, changed: list[ComparedTable]) -> Table:
    domain = found.after.plan.domain
    shown = grid("changed", "of", "largest change", right=("points", "± 95 %", "p"))
    for table in changed:
        names = " × ".join(domain.names[i] for i in table.attributes)
        label, value, half = _largest(table, domain)
        shown.add_row(names, _kind(table), label, value, half, f"{table.adjusted:.1g}")
    return shown


def _largest(table: ComparedTable, domain: Domain) -> tuple[str, str, str]:
    """Return the cell with the largest change in standard errors, and its change."""
    if table.difference is None or table.stderr is None:
        return "", "", ""
    scaled = np.abs(table.difference) / np.where(table.stderr > 0, table.stderr, np.inf)
    cell = int(np.argmax(scaled))
    labels = list(product(*(domain.attributes[i].labels for i in table.attributes)))[cell]
    label = ", ".join(labels)
    return label, f"{100 * table.difference[cell]:+.2f}", f"{100 * Z95 * table.stderr[cell]:.2f}"


def _kind(table: ComparedTable) -> str:
    if table.dependence is None:
        return "margin" if len(table.attributes) == 1 else "-"
    return "dependence" if table.dependence < _SMALL else "margins"


def _rest(found: Changes, hidden: int) -> list[str]:
    tables = found.comparison.tables
    lines = [f"{_tables(hidden)} more changed: --limit"] if hidden else []
    reasons = sorted({table.reason for table in tables if table.reason})
    for reason in reasons:
        count = sum(table.reason == reason for table in tables)
        lines.append(f"{_tables(count)} not tested: {reason}")
    partial = sum(bool(t.uncovered) and not t.reason for t in tables)
    if partial:
        lines.append(f"{_tables(partial)} tested in part: no view has all of the attributes")
    return lines


def _tables(count: int) -> str:
    return "1 table" if count == 1 else f"{count} tables"


def _order(table: ComparedTable) -> tuple[float, int]:
    return (table.adjusted if table.adjusted is not None else 1.0, len(table.attributes))
