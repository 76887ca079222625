"""The list of all methods: what a device reports, how tables are estimated, when to use each.

``python -m calmstream.planning.methods_page > docs/methods.md`` writes the page; ``calmstream plan
--methods`` shows the same lines. Tests compare the lines with the registry and with the methods.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass

from rich.table import Table as Grid

from calmstream.common.errors import PlanError
from calmstream.estimators import methods
from calmstream.terminal import Console

LOCAL, EVALUATION, CENTRAL = "local", "evaluation only", "central"

# What the expected errors of a design mean, by method; `calmstream plan` prints these lines.
UPPER = (
    "These are upper bounds of the errors by noise and sampling, before negative cells are "
    "corrected. If errors are large, the correction makes them much smaller."
)
TOGETHER = (
    f"{UPPER} A table that no view contains is reconstructed from smaller tables, which adds an "
    "error that no formula states."
)
EXACT = "These are the exact errors by noise; tables are not corrected afterwards."
JOINT = (
    "These are upper bounds of the errors by noise: those of the joint inverse, from which the "
    "published tables are made."
)
PRODUCT = (
    "These are the errors by noise on uniformly distributed data, not bounds: skewed data has "
    "larger ones, and the error by dependence between the parts is not included."
)
COLLISIONS = (
    "These are the errors by noise on uniformly distributed data, before negative cells are "
    "corrected, not bounds: if few records are frequent, hash collisions add more."
)
LASSO = (
    "These are the errors by noise of least squares, before the Lasso and the correction of "
    "negative cells; the error of values that the Lasso omits is not included."
)
PRIOR = (
    "These are the errors after shrinkage if interactions are as strong as the method's prior "
    "assumes, not bounds."
)


@dataclass(frozen=True, slots=True)
class MethodNote:
    """One line of the list: a method and its use.

    Attributes:
        name: registry name, or that of the central method.
        model: ``local``, ``evaluation only`` (local, but no plan may name it) or ``central``.
        asks: what one device reports.
        recovers: how tables are estimated.
        take: when to choose the method.
        source: the publication, or the project that proposed it.
        expected: meaning of the errors that a design of the method states; empty if it states none.
        raw: whether tables are published without correction: cells may be negative and need not
            add up to 1. All other methods publish distributions.
    """

    name: str
    model: str
    asks: str
    recovers: str
    take: str
    source: str
    expected: str = UPPER
    raw: bool = False


ZHANG = "Zhang et al., CALM, CCS 2018"
CORMODE = "Cormode, Kulkarni, Srivastava, SIGMOD 2018"
DOMINGO = "Domingo-Ferrer, Soria-Comas, TKDE 2022"
CASTELL = "Kikuchi, Domingo-Ferrer, Soria-Comas, Castell"

NOTES: tuple[MethodNote, ...] = (
    MethodNote(
        "calm",
        LOCAL,
        "one table of a few attributes, by GRR or OUE",
        "overlapping tables made consistent and non-negative; maximum entropy beyond them",
        "results have to be comparable with CALM's",
        ZHANG,
        expected=TOGETHER,
    ),
    MethodNote(
        "noise-aware",
        LOCAL,
        "one table of 1 to 4 attributes; tables that reduce the error more get more devices",
        "a Bayesian model of pairs and triples of attributes, shrunk according to the noise",
        "the default, for nearly everything",
        "this project",
        expected=PRIOR,
    ),
    MethodNote(
        "fc",
        LOCAL,
        "the whole record as one value, by GRR or OUE",
        "sum of cells",
        "a record has few values",
        f"baseline of {ZHANG}",
    ),
    MethodNote(
        "am",
        LOCAL,
        "one table of k attributes, by GRR or OUE",
        "directly; smaller tables averaged",
        "few attributes, and unbiased tables of exactly k of them are needed",
        f"baseline of {ZHANG}",
    ),
    MethodNote(
        "ft",
        LOCAL,
        "one Hadamard coefficient of the bits of the record",
        "inverse transform",
        "to reproduce CALM's comparison; inp-ht has smaller errors",
        f"as described in {ZHANG}",
    ),
    MethodNote(
        "inp-ht",
        LOCAL,
        "one Hadamard coefficient that depends on at most k attributes",
        "inverse transform",
        "binary attributes, and unbiased tables with exact variances, as for statistical tests",
        CORMODE,
    ),
    MethodNote(
        "characters",
        LOCAL,
        "one sum of multiples of the codes, modulo their number",
        "inverse transform",
        "as inp-ht, for attributes that all have the same number of values, three or more",
        f"this project, after a conjecture in {CORMODE}",
    ),
    MethodNote(
        "inp-rr",
        LOCAL,
        "the whole record, a bit for each of its values (SUE)",
        "sum of cells",
        "to reproduce the paper; records of few values, k near d",
        CORMODE,
    ),
    MethodNote(
        "inp-ps",
        LOCAL,
        "the whole record as one value, by GRR",
        "sum of cells",
        "to reproduce the paper; records of a handful of values only",
        CORMODE,
    ),
    MethodNote(
        "inp-olh",
        LOCAL,
        "the whole record, hashed (OLH)",
        "sum of cells",
        "to reproduce the paper; tallying costs a step for every value of a record",
        f"Wang et al., USENIX Security 2017, in {CORMODE}",
    ),
    MethodNote(
        "inp-htcms",
        LOCAL,
        "the whole record, one bit of a Hadamard count-mean sketch",
        "sum of cells",
        "to reproduce the paper",
        f"Apple, 2017, in {CORMODE}",
        expected=COLLISIONS,
    ),
    MethodNote(
        "inp-em",
        LOCAL,
        "every attribute, each with a part of epsilon",
        "maximum likelihood, table by table, stopped before it fits noise",
        "to reproduce the paper; valid tables from whole-record reports",
        CORMODE,
    ),
    MethodNote(
        "marg-rr",
        LOCAL,
        "one table of k attributes, a bit for each of its cells (SUE)",
        "directly; smaller tables averaged",
        "to reproduce the paper; am has smaller errors",
        CORMODE,
    ),
    MethodNote(
        "marg-ps",
        LOCAL,
        "one table of k attributes, by GRR",
        "directly; smaller tables averaged",
        "to reproduce the paper; small tables or a large epsilon",
        CORMODE,
    ),
    MethodNote(
        "marg-ht",
        LOCAL,
        "one Hadamard coefficient of one table of k attributes",
        "inverse transform; smaller tables averaged",
        "to reproduce the paper; inp-ht lets a report serve more tables",
        CORMODE,
    ),
    MethodNote(
        "rr-joint",
        LOCAL,
        "the whole record as one value, by randomised response",
        "inverse of the channel",
        "to reproduce the papers; records of a handful of values only",
        DOMINGO,
        expected=EXACT,
        raw=True,
    ),
    MethodNote(
        "rr-independent",
        LOCAL,
        "every attribute, each with a part of epsilon",
        "product of single attributes",
        "attributes known to be independent, tables of any size",
        DOMINGO,
        expected=PRODUCT,
        raw=True,
    ),
    MethodNote(
        "rr-ind-joint",
        LOCAL,
        "every attribute, each with a part of epsilon",
        "inverse of the channels, axis by axis",
        "a large epsilon for each attribute (about 4); pilots of rr-clusters",
        CASTELL,
        expected=EXACT,
        raw=True,
    ),
    MethodNote(
        "rr-hybrid",
        LOCAL,
        "every attribute, each with a part of epsilon",
        "rr-ind-joint or rr-independent, whichever has the smaller predicted error",
        "as rr-ind-joint, for larger tables or a smaller epsilon",
        CASTELL,
        expected=JOINT,
        raw=True,
    ),
    MethodNote(
        "rr-truncated",
        LOCAL,
        "every attribute, each with a part of epsilon",
        "rr-ind-joint; negative cells become 0, and smaller tables limit the cells",
        "to reproduce the paper",
        CASTELL,
        expected=JOINT,
        raw=True,
    ),
    MethodNote(
        "rr-clusters",
        LOCAL,
        "every cluster of dependent attributes, each with a part of epsilon",
        "product of clusters",
        "after a pilot has shown which few attributes depend on each other",
        DOMINGO,
        expected=PRODUCT,
        raw=True,
    ),
    MethodNote(
        "lopub",
        LOCAL,
        "every attribute as a Bloom filter, its bits flipped",
        "Lasso from counters",
        "to compare with it",
        "Ren et al., LoPub, TIFS 2018",
        expected=LASSO,
    ),
    MethodNote(
        "lopub-em",
        EVALUATION,
        "as lopub",
        "Lasso, then expectation-maximisation on the reports themselves",
        "to compare with it: it needs every report again, so it does not stream",
        "Ren et al., LoPub, TIFS 2018",
        expected=LASSO,
    ),
    MethodNote(
        "uniform",
        EVALUATION,
        "nothing that is used",
        "the uniform table",
        "to compare other methods with it: a larger error than this is of no use",
        "baseline",
        expected="",
    ),
    MethodNote(
        "dp-marginals",
        CENTRAL,
        "the raw record, by a trusted aggregator",
        "counts of tuples with noise, those above a threshold",
        "the operator may see records; errors are far smaller (plan --model central)",
        "Gopi, Mahabadi, Yekhanin, Differentially Private Marginals",
        expected="",
    ),
)

_WIDE = 400
"""Width in characters that keeps a method on one line."""

_BY_NAME = {note.name: note for note in NOTES}

_HEAD = """\
# Methods

Generated by `python -m calmstream.planning.methods_page`; do not edit. `calmstream plan --methods`
shows these lines too. When to use which method, with measurements: [concepts](concepts.md).
Formulas:
[mechanisms](methods/mechanisms.md), [CALM](methods/calm.md),
[noise-aware](methods/noise-aware.md), [linear methods](methods/linear-methods.md),
[whole records](methods/whole-records.md),
[the central method](central-privacy.md). Measure them on data like yours: `calmstream evaluate`.

| name | model | a device reports | tables are estimated by | use it for | source |
|---|---|---|---|---|---|
"""

_TAIL = """
*Evaluation only*: local, but no plan may name it. *Raw*: cells of published tables may be negative
and need not add up to 1; all other local methods publish distributions. Frequency oracles: GRR is
generalised randomised response; OUE and SUE are unary encodings, optimised and symmetric; OLH is
local hashing.
"""


def method_note(name: str) -> MethodNote:
    """Return the note of a method; of another package's it says what that method's class says.

    Raises:
        PlanError: the method's package cannot be used.
    """
    if name in _BY_NAME:
        return _BY_NAME[name]
    method = type(methods.get(name))
    says = (method.__doc__ or "see its package").strip().partition("\n")[0]
    model = EVALUATION if method.baseline else LOCAL
    return MethodNote(name, model, says, "", "", f"package {method.__module__}", expected="")


def page() -> str:
    """Return the whole page in Markdown."""
    rows = "".join(
        f"| `{n.name}` | {n.model} | {n.asks} | {_recovers(n)} | {n.take} | {n.source} |\n"
        for n in NOTES
    )
    return _HEAD + rows + _TAIL


def grid() -> Grid:
    """Return the lines as a table for people, without the sources."""
    table = Grid(box=None, pad_edge=False, header_style="bold cyan")
    table.add_column("method", no_wrap=True)
    for title in ("model", "a device reports", "tables are estimated by", "use it for"):
        table.add_column(title)
    for n in NOTES:
        table.add_row(n.name, n.model, n.asks, _recovers(n), n.take)
    for name in sorted(set(methods.names()) - set(_BY_NAME)):
        try:
            n = method_note(name)
        except PlanError as error:
            table.add_row(name, "", str(error), "", "")
        else:
            table.add_row(n.name, n.model, n.asks, _recovers(n), n.source)
    return table


class ShowMethods(argparse.Action):
    """An option that prints the methods and exits, as ``--help`` does."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        """Print the methods; without a terminal, one line per method."""
        console = Console(highlight=False)
        if not console.is_terminal:
            console.width = _WIDE
        console.print(grid())
        parser.exit()


def _recovers(n: MethodNote) -> str:
    """Return how tables are estimated, and whether they are published without correction."""
    return f"{n.recovers}; raw" if n.raw else n.recovers


if __name__ == "__main__":
    sys.stdout.write(page())
