"""All methods, one line each: what a device is asked, how tables are estimated, when to use it.

``python -m calmstream.planning.methods_page > docs/methods.md`` writes the page; ``calmstream plan
--methods`` shows the same lines. Tests compare the lines with the registry and with the methods.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table as Grid

LOCAL, EVALUATION, CENTRAL = "local", "evaluation only", "central"

UPPER = (
    "Upper bounds of noise and sampling, before non-negativity: correcting negative cells takes "
    "much off where they are large."
)
TOGETHER = f"{UPPER} Where no view holds a table, putting it together adds what no formula knows."
EXACT = "That is noise alone, and all of it: nothing is corrected afterwards."
JOINT = "Upper bounds of noise: those of the joint inverse, before anything is made of it."
PRODUCT = (
    "Noise on evenly distributed data, no bound: skewed data has more, and what dependence between "
    "the parts adds is not in it."
)
COLLISIONS = (
    "Noise on evenly distributed data, before non-negativity and no bound: where few records are "
    "frequent, hash collisions add more."
)
LASSO = (
    "Noise of least squares, before the Lasso and non-negativity; what the Lasso leaves out is not "
    "in it."
)
PRIOR = (
    "What is left after shrinkage if interactions are as strong as the method's prior takes them "
    "to be; no bound."
)


@dataclass(frozen=True, slots=True)
class MethodNote:
    """One method.

    Attributes:
        name: registry name, or that of the central method.
        model: ``local``, ``evaluation only`` (local, but no plan may name it) or ``central``.
        asks: what one device reports.
        recovers: how tables are estimated.
        take: when to choose it.
        source: who proposed it.
        expected: meaning of the errors that its design states; empty if it states none.
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
        "one table of 1 to 4 attributes, asked as often as it is worth",
        "a Bayesian model of pairs and triples that fits no further than its noise allows",
        "the default: nearly everything",
        "this project",
        expected=PRIOR,
    ),
    MethodNote(
        "fc",
        LOCAL,
        "the whole record as one of all its values, by GRR or OUE",
        "sum of cells",
        "a record has few values",
        f"baseline of {ZHANG}",
    ),
    MethodNote(
        "am",
        LOCAL,
        "one table of k attributes, by GRR or OUE",
        "read off; smaller ones averaged",
        "few attributes, and unbiased tables of exactly k are wanted",
        f"baseline of {ZHANG}",
    ),
    MethodNote(
        "ft",
        LOCAL,
        "one Hadamard coefficient of the bits of the record",
        "inverse transform",
        "to reproduce CALM's comparison; inp-ht does the same better",
        f"as described in {ZHANG}",
    ),
    MethodNote(
        "inp-ht",
        LOCAL,
        "one Hadamard coefficient that touches at most k attributes",
        "inverse transform",
        "binary attributes and unbiased tables with exact variances, as for tests",
        CORMODE,
    ),
    MethodNote(
        "characters",
        LOCAL,
        "one sum of multiples of the codes, modulo their number",
        "inverse transform",
        "as inp-ht where attributes have the same number of values, three or more",
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
        "one table of k attributes, a bit a cell (SUE)",
        "read off; smaller ones averaged",
        "to reproduce the paper; am asks the same better",
        CORMODE,
    ),
    MethodNote(
        "marg-ps",
        LOCAL,
        "one table of k attributes, by GRR",
        "read off; smaller ones averaged",
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
        "rr-ind-joint or rr-independent, whichever should err less",
        "rr-ind-joint with larger tables or a smaller epsilon",
        CASTELL,
        expected=JOINT,
        raw=True,
    ),
    MethodNote(
        "rr-truncated",
        LOCAL,
        "every attribute, each with a part of epsilon",
        "rr-ind-joint, negatives to 0, capped by smaller tables",
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
        "to know what knowing nothing costs",
        "baseline",
        expected="",
    ),
    MethodNote(
        "dp-marginals",
        CENTRAL,
        "the raw record, by a trusted aggregator",
        "counts of tuples with noise, those above a threshold",
        "the operator may see records: far smaller errors (plan --model central)",
        "Gopi, Mahabadi, Yekhanin, Differentially Private Marginals",
        expected="",
    ),
)

_WIDE = 400

_BY_NAME = {note.name: note for note in NOTES}

_HEAD = """\
# Methods

Generated by `python -m calmstream.planning.methods_page`; do not edit. `calmstream plan --methods`
shows these lines too. Which one when, with measurements: [concepts](concepts.md). Formulas:
[mechanisms](methods/mechanisms.md), [CALM](methods/calm.md),
[noise-aware](methods/noise-aware.md), [linear methods](methods/linear-methods.md),
[whole records](methods/whole-records.md),
[the central method](central-privacy.md). Measure them on data like yours: `calmstream evaluate`.

| name | model | a device is asked for | tables come back by | take it when | source |
|---|---|---|---|---|---|
"""

_TAIL = """
*Evaluation only*: local, but no plan may name it. *Raw*: cells of published tables may be negative
and need not add up to 1; all other local methods publish distributions. Frequency oracles: GRR is
generalised randomised response; OUE and SUE are unary encodings, optimised and symmetric; OLH is
local hashing.
"""


def note(name: str) -> MethodNote:
    """Return the note of a method; every registered method has one."""
    return _BY_NAME[name]


def page() -> str:
    """Return the whole page in Markdown."""
    rows = "".join(
        f"| `{n.name}` | {n.model} | {n.asks} | {_recovers(n)} | {n.take} | {n.source} |\n"
        for n in NOTES
    )
    return _HEAD + rows + _TAIL


def grid() -> Grid:
    """Return the lines as a table for people, without the sources."""
    shown = Grid(box=None, pad_edge=False, header_style="bold cyan")
    shown.add_column("method", no_wrap=True)
    for title in ("model", "a device is asked for", "tables come back by", "take it when"):
        shown.add_column(title)
    for n in NOTES:
        shown.add_row(n.name, n.model, n.asks, _recovers(n), n.take)
    return shown


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
    return f"{n.recovers}; raw" if n.raw else n.recovers


if __name__ == "__main__":
    sys.stdout.write(page())
