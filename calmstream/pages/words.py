"""Shares of words for people; see `calmstream query --candidates`."""

from __future__ import annotations

import numpy as np

from calmstream.consumer.read.words import WordShares
from calmstream.estimators.marginal import Z95
from calmstream.estimators.plan import Plan
from calmstream.pages.answer import dated
from calmstream.terminal import Console, grid

MOST_SHOWN = 40
"""Maximum number of words of one population that are shown."""


def show(console: Console, plan: Plan, answer: WordShares) -> None:
    """Print the words that are seen, the largest first, and what is not seen."""
    about = f"{plan.name}-{plan.digest[:8]}: {dated(plan, answer.windows[0])}"
    flags = ", ".join(flag for flag in answer.flags if flag != "words")
    said = f"{about}, {answer.reports:,} reports about {' and '.join(answer.attributes)}"
    console.print(" · ".join(filter(None, (said, flags))))
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
            shown.add_row(words[s], f"{100 * table[s]:.2f}", f"{100 * Z95 * stderr[s]:.2f}", note)
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
    least = f"a share of about {100 * limit:.2g} % would be"
    return f"{seen:,} of {words:,} candidates seen{more}; {least}"
