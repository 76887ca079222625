"""Summaries of ``calmstream query --summary``: for people, and as JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import orjson
from rich.table import Table

from calmstream.consumer.read.summary import Summary, document
from calmstream.estimators.analysis.summaries import Value
from calmstream.estimators.plan import Plan
from calmstream.pages import text
from calmstream.terminal import Console


def as_json(plan: Plan, found: Summary) -> bytes:
    """Return one object and a line feed."""
    return orjson.dumps(document(plan, found)) + b"\n"


def as_table(plan: Plan, found: Summary) -> bytes:
    """Return one line for each statistic, with what must be known about all of them above."""
    return text.as_text(lambda console: _print(console, plan, found))


def _print(console: Console, plan: Plan, found: Summary) -> None:
    about = f"{plan.name}-{plan.digest[:8]}: {found.windows}, {found.reports:,} reports"
    console.print("\n".join(filter(None, (about, ", ".join(found.flags)))), markup=False)
    unit = f" ({found.unit})" if found.unit else ""
    console.print(f"{' and '.join(found.attributes)}{unit}", markup=False)
    shown = Table(box=None, pad_edge=False)
    for name in (*found.given, "statistic"):
        shown.add_column(name.replace("[", r"\["), overflow="fold")
    for name in ("value", "95 % interval"):
        shown.add_column(name, justify="right", no_wrap=True)
    for row in found.rows:
        for name, value in zip(found.statistics, row.values, strict=True):
            labels = (label.replace("[", r"\[") for label in row.labels)
            shown.add_row(*labels, name, *_texts(name, value))
    console.print(shown)


def _texts(name: str, value: Value) -> tuple[str, str]:
    """Return a value and its interval; shares as percentages."""
    if math.isnan(value.value):
        return "unknown", ""
    if name.startswith("share:"):
        return f"{value.value:.2%}", f"{value.low:.2%} to {value.high:.2%}"
    return f"{value.value:.4g}", f"{value.low:.4g} to {value.high:.4g}"


FORMATS: Mapping[str, Callable[[Plan, Summary], bytes]] = {"table": as_table, "json": as_json}
"""How a summary becomes bytes, by the name of the format."""
