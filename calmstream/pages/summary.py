"""Summaries of ``calmstream query --summary`` for people."""

from __future__ import annotations

import math

from calmstream.consumer.read.summary import Summary
from calmstream.estimators.analysis.summaries import Value
from calmstream.estimators.plan import Plan
from calmstream.terminal import Console, grid


def show(console: Console, plan: Plan, found: Summary) -> None:
    """Print one line for each statistic, with what must be known about all of them above."""
    about = f"{plan.name}-{plan.digest[:8]}: {found.windows}, {found.reports:,} reports"
    console.print("\n".join(filter(None, (about, ", ".join(found.flags)))))
    unit = f" ({found.unit})" if found.unit else ""
    console.print(f"{' and '.join(found.attributes)}{unit}")
    shown = grid(*found.given, "statistic", right=("value", "95 % interval"))
    for row in found.rows:
        for name, value in zip(found.statistics, row.values, strict=True):
            shown.add_row(*row.labels, name, *_texts(name, value))
    console.print(shown)


def _texts(name: str, value: Value) -> tuple[str, str]:
    """Return a value and its interval; shares as percentages."""
    if math.isnan(value.value):
        return "unknown", ""
    if name.startswith("share:"):
        return f"{value.value:.2%}", f"{value.low:.2%} to {value.high:.2%}"
    return f"{value.value:.4g}", f"{value.low:.4g} to {value.high:.4g}"
