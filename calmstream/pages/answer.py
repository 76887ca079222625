"""Answers to questions for people; the other formats are in `formats`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np

from calmstream.consumer.read.history import Answer
from calmstream.consumer.read.ranges import Windows
from calmstream.consumer.read.summary import Summary
from calmstream.consumer.read.words import WordShares
from calmstream.estimators.plan import Plan
from calmstream.pages.watch import in_percent, left_out, numbers, shown_cells, span
from calmstream.terminal import Console, grid


def show(
    console: Console,
    answer: Answer,
    where: Sequence[str] = (),
    change: Answer | None = None,
) -> None:
    """Print a table, and beside it the change since other windows."""
    plan = answer.plan
    about = f", where {' and '.join(where)}" if where else ""
    flags = answer.flags if change is None else (*answer.flags, *change.flags)
    console.print(heading(plan, answer.windows[0], answer.reports, flags, about))
    if change is not None:
        console.print(f"change: points since {dated(plan, change.windows[1])}")
    more = ("change", "± 95 %") if change is not None else ()
    shown = grid(*answer.attributes, right=("%", "± 95 %", *more))
    rows, values = list(product(*answer.labels)), answer.table.ravel().tolist()
    for i in shown_cells(values):
        cell: tuple[str, ...] = in_percent(values[i], answer.stderr.flat[i])
        if change is not None:
            cell += in_percent(change.table.flat[i], change.stderr.flat[i], "+")
        shown.add_row(*rows[i], *cell)
    console.print(shown)
    for line in left_out(values):
        console.print(line, style="dim")


def heading(
    plan: Plan, windows: Windows, reports: int, flags: Sequence[str] = (), about: str = ""
) -> str:
    """Return the first line of an answer; it may be ``about`` some of the people only."""
    text = f"{plan.name}-{plan.digest[:8]}: {dated(plan, windows)}, {reports:,} reports{about}"
    return " · ".join(filter(None, (text, ", ".join(dict.fromkeys(flags)))))


def dated(plan: Plan, windows: Windows) -> str:
    ends = plan.window_start(windows.first), plan.window_end(windows.last)
    first, last = (ms / 1000 for ms in ends)
    return f"{windows} ({span(first, last, '%H:%M' if plan.window % 60 == 0 else '%H:%M:%S')})"


def show_summary(console: Console, found: Summary) -> None:
    table = found.table
    console.print(heading(found.plan, found.windows, found.reports, table.flags))
    unit = f" ({table.unit})" if table.unit else ""
    console.print(f"{' and '.join(table.attributes)}{unit}")
    shown = grid(*table.given, "statistic", right=("value", "95 % interval"))
    for row in table.rows:
        for one in row.statistics:
            shown.add_row(*row.labels, one.statistic, *numbers(one))
    console.print(shown)


MOST_SHOWN = 40  # maximum number of words of one population that are shown


def show_words(console: Console, answer: WordShares) -> None:
    """Print the words that are seen, the largest first, and what is not seen."""
    flags, about = [*answer.flags], f" about {' and '.join(answer.attributes)}"
    flags.remove("words")
    console.print(heading(answer.plan, answer.windows[0], answer.reports, flags, about))
    words = answer.labels[-1]
    labels = answer.labels[0] if len(answer.labels) > 1 else ("",)
    parts = [part.reshape(len(labels), -1) for part in (answer.table, answer.stderr, answer.seen)]
    collides = answer.collides.reshape(len(labels), -1)
    for v, label in enumerate(labels):
        table, stderr, seen = (part[v] for part in parts)
        if label:
            console.print(f"\n{answer.attributes[0]} {label}", style="bold")
        shown = grid(answer.attributes[-1], right=("%", "± 95 %", ""))
        order = sorted(np.flatnonzero(seen).tolist(), key=lambda s: -table[s])
        for s in order[:MOST_SHOWN]:
            note = "collision" if collides[v, s] else ""
            shown.add_row(words[s], *in_percent(table[s], stderr[s]), note)
        if order:
            console.print(shown)
        console.print(_rest(len(order), len(words), answer.limits[v]), style="dim")
        if answer.unexplained[v]:
            console.print(
                f"unexplained: as much as one more word of {100 * answer.unexplained[v]:.2g} %",
                style="dim",
            )
    if collides.any():
        console.print(
            "collision: another word of the list may be meant, or an unknown one got in the way",
            style="dim",
        )


def _rest(seen: int, words: int, limit: float) -> str:
    more = f"; the largest {MOST_SHOWN} are shown" if seen > MOST_SHOWN else ""
    least = f"a share of about {100 * limit:.2g} % would be seen"
    return f"{seen:,} of {words:,} candidates seen{more}; {least}"
