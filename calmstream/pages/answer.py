"""Answers of ``calmstream query`` for people; the other formats are in `formats`."""

from __future__ import annotations

from collections.abc import Mapping

from rich.table import Table

from calmstream.consumer.read import formats
from calmstream.consumer.read.answer import Answer
from calmstream.estimators.marginal import Z95
from calmstream.estimators.plan import Plan
from calmstream.pages import text
from calmstream.terminal import Console

TABLE = "table"
"""The format for people."""


def as_table(plan: Plan, answer: Answer) -> bytes:
    """Return a table for people, with what must be known about it above."""
    return text.as_text(lambda console: _print(console, plan, answer))


def _print(console: Console, plan: Plan, answer: Answer) -> None:
    windows = " minus ".join(str(one) for one in answer.windows)
    about = f"{plan.name}-{plan.digest[:8]}: {windows}, {answer.reports:,} reports"
    flags = ", ".join(answer.flags)
    between = " · " if len(about) + len(flags) + 3 <= console.width else "\n"
    console.print(about + between + flags if flags else about, soft_wrap=True, markup=False)
    shown = Table(box=None, pad_edge=False)
    for name in answer.attributes:
        shown.add_column(name, overflow="fold")
    change = "difference" in answer.flags
    shown.add_column("change" if change else "proportion", justify="right")
    shown.add_column("± 95 %", justify="right")
    for row in formats.rows(answer):
        sign = "+" if change else ""
        value, half = f"{100 * row[-2]:{sign}.2f} %", f"{100 * Z95 * row[-1]:.2f}"
        shown.add_row(*(_plain(label) for label in row[:-2]), value, half)
    console.print(shown)


def _plain(label: str) -> str:
    return label.replace("[", r"\[")


FORMATS: Mapping[str, formats.Format] = {TABLE: as_table, **formats.FORMATS}
"""How an answer becomes bytes, by the name of the format."""
