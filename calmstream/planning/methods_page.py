"""The list of all methods: what a device reports, how tables are estimated, when to use each.

The site has the page; ``calmstream plan --method list`` shows its lines. Every method has its own.
"""

from __future__ import annotations

import argparse
from typing import Any

from rich.table import Table as Grid

from calmstream.common.errors import PlanError
from calmstream.estimators import methods
from calmstream.estimators.methods.notes import Note
from calmstream.terminal import Console

LOCAL, EVALUATION, CENTRAL = "local", "evaluation only", "central"

CENTRAL_NOTE = Note(
    "the raw record, by a trusted aggregator",
    "counts of tuples with noise, those above a threshold",
    "the operator may see records; errors are far smaller (`central plan`)",
    "Gopi, Mahabadi, Yekhanin, Differentially Private Marginals",
)


_WIDE = 400
"""Width in characters that keeps a method on one line."""

_HEAD = """\
# Methods

[Concepts](../concepts.md) says when to use which; `calmstream evaluate` measures them on your data.

| name | model | a device reports | tables are estimated by | use it for | source |
|---|---|---|---|---|---|
"""

_TAIL = """
*Evaluation only*: local, but no plan may name it. *Raw*: cells of published tables may be negative
and need not add up to 1; all other local methods publish distributions. Frequency oracles: GRR is
generalised randomised response; OUE and SUE are unary encodings, optimised and symmetric; OLH is
local hashing.
"""


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


def page() -> str:
    """Return the whole page in Markdown, with the methods of this package."""
    ours = [n for n in methods.names() if type(methods.get(n)).__module__.startswith("calmstream.")]
    lines = [(n, model_of(n), note_of(n)) for n in ours]
    lines.append((methods.CENTRAL, CENTRAL, CENTRAL_NOTE))
    rows = "".join(
        f"| `{name}` | {model} | {n.asks} | {_recovers(n)} | {n.take} | {n.source} |\n"
        for name, model, n in lines
    )
    return _HEAD + rows + _TAIL


def grid() -> Grid:
    """Return the lines as a table for people, without the sources."""
    table = Grid(box=None, pad_edge=False, header_style="bold cyan")
    table.add_column("method", no_wrap=True)
    for title in ("model", "a device reports", "tables are estimated by", "use it for"):
        table.add_column(title)
    for name in methods.names():
        try:
            model, n = model_of(name), note_of(name)
        except PlanError as error:
            table.add_row(name, "", str(error), "", "")
        else:
            table.add_row(name, model, n.asks, _recovers(n), n.take or n.source)
    n = CENTRAL_NOTE
    table.add_row(methods.CENTRAL, CENTRAL, n.asks, _recovers(n), n.take)
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


def _recovers(n: Note) -> str:
    """Return how tables are estimated, and whether they are published without correction."""
    return f"{n.recovers}; raw" if n.raw else n.recovers
