"""``calmstream plan --method list``: what a device reports, and how tables are estimated."""

from __future__ import annotations

import argparse
from typing import Any

from rich.table import Table as Grid

from calmstream.common.errors import PlanError
from calmstream.estimators import methods
from calmstream.estimators.methods.notes import Note
from calmstream.terminal import Console
from calmstream.terminal import grid as lines

LOCAL, EVALUATION, CENTRAL = "local", "evaluation only", "central"

CENTRAL_NOTE = Note(
    "the raw record, by a trusted aggregator",
    "counts of tuples with noise, those above a threshold",
    "the operator may see records; errors are far smaller (`central plan`)",
    "Gopi, Mahabadi, Yekhanin, Differentially Private Marginals",
)


_WIDE = 400
"""Width in characters that keeps a method on one line."""


def note_of(name: str) -> Note:
    """Return what a method says about itself: its note, or the first line of its docstring."""
    method = type(methods.get(name))
    says = (method.__doc__ or "see its package").strip().partition("\n")[0]
    unnoted = Note(says, "", "", f"package {method.__module__}")
    note: Note = getattr(method, "note", unnoted)
    return note


def model_of(name: str) -> str:
    """Return ``local``, or ``evaluation only``: local, but no plan may name the method."""
    return EVALUATION if methods.get(name).baseline else LOCAL


def grid() -> Grid:
    """Return the lines as a table for people, without the sources."""
    table = lines("method", "model", "a device reports", "tables are estimated by", "use it for")
    for name in methods.names():
        try:
            model, n = model_of(name), note_of(name)
        except PlanError as error:
            table.add_row(name, "", str(error), "", "")
        else:
            table.add_row(name, model, n.asks, n.recovers + "; raw" * n.raw, n.take or n.source)
    n = CENTRAL_NOTE
    table.add_row(methods.CENTRAL, CENTRAL, n.asks, n.recovers, n.take)
    return table


class MethodOrList(argparse.Action):
    """An option that takes a method, or with ``list`` prints all and exits, as ``--help`` does."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        _: str | None = None,
    ) -> None:
        """Print the methods; without a terminal, one line per method."""
        setattr(namespace, self.dest, values)
        if values != "list":
            return
        console = Console()
        if not console.is_terminal:
            console.width = _WIDE
        console.print(grid())
        parser.exit()
