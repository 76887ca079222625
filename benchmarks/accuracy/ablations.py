"""What each part of the one model is worth: `python -m benchmarks.accuracy.ablations run`.

Every part is left out alone. The tallies of a cell and a repeat are the same with and without it,
so the ratio of the errors is its worth; parts of the design change the plan, and so the tallies. A
part stays if it takes 3 % of the error or .01 of the distance of the coverage to .95 in the cells
that it concerns. Run it in the environment of `make strangers`, which has five of the sets.
"""

from __future__ import annotations

import argparse
import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from rich.console import Console
from rich.table import Table as Grid

from benchmarks.accuracy.numbers import load
from benchmarks.grid.cells import Cell, targets_of
from benchmarks.populations import first
from benchmarks.study import Study
from calmstream.estimators import methods
from calmstream.estimators.domain import Codes, Domain
from calmstream.estimators.marginal import inside, sse
from calmstream.estimators.noise_aware import (
    density,
    design,
    model,
    ordered,
    priors,
    residuals,
    sampler,
    signs,
    statistics,
    tables,
)
from calmstream.estimators.noise_aware.sampler import Effort
from calmstream.estimators.plan.request import Request
from calmstream.evaluation.population import collect, local_plan

STUDY = Study(Path(__file__).parents[1] / "results" / "ablations.jsonl")
REPEATS, TARGETS = 3, 30
ALL = "nothing"

Part = list[tuple[Any, str, Any]]
"""Names that are replaced: their owner, the name, and what stands there instead."""


def nothing(*_: Any, **__: Any) -> None:
    """Draw nothing."""


def none(*_: Any, **__: Any) -> None:
    """Return None: no order."""


def no_start(layout: Any, _: Any, causes: int) -> Any:
    """Return loadings of 0."""
    return np.zeros((layout.size, causes))


def effort(**changes: int) -> Part:
    """Return a fit whose effort never follows the plan."""
    return [(Effort, "of", lambda _layout, _targets: Effort(**changes))]


def only_pairs(self: Any, attributes: Any, table: Any) -> Any:
    """Return the residual of pairs alone."""
    if len(attributes) > 2:
        return 0.0 * table
    return self._pair_residual(attributes, table, np.random.default_rng(attributes))


PARTS: dict[str, Part] = {
    ALL: [],
    "the order of labels": [(density, "levels_of", none)],
    "the order in label texts": [(ordered, "label_places", none)],
    "the order of effects": [(priors, "LINE", 1e-9)],
    "a choice of margins' scales": [(priors.LabelMargins, "redraw", nothing)],
    "scales of bits' margins": [(priors.BitMargins, "redraw", nothing)],
    "the common effect on bits": [(priors, "WIDE", 1e-3)],
    "triples in the fit": [(statistics, "MOST_TRIPLES", 0)],
    "moments of four": [(model, "ORDERS", {True: 3, False: 3})],
    "residuals of pairs": [(residuals, "TYPICAL", (0.6, 2e-5, 0.05, 0.03))],
    "residuals of triples": [(residuals, "TYPICAL", (0.6, 0.1, 2e-4, 0.03))],
    "residuals beyond pairs": [(tables.Tables, "_residual", only_pairs)],
    "the doubt": [(tables, "TYPICAL", (1e-6,) * 4)],
    "the inflation": [(tables, "INFLATION", 1.0)],
    "the start": [(sampler, "leading", no_start)],
    "six causes (four)": effort(causes=4),
    "more sweeps where cheap": effort(),
    "signs of levels": [(signs, "choose", lambda *_: signs.CoarseViews((), 0.0))],
    "strong pairs in designs": [(design, "STRONG", 0.2)],
    "two means in designs": [(design, "MEANS", (0.3,))],
    "two thirds in designs": [(design, "THIRDS", (0.4,))],
}

CELLS = [
    *(Cell(name, 8, 3, e, 18) for name in ("adult", "census", "crashes") for e in ("0.5", "2")),
    *(Cell(name, 16, 3, e, 18) for name in ("kosarak", "churn") for e in ("0.5", "2")),
    *(Cell(name, 8, 3, e, 18) for name in ("wages", "stops", "abortion") for e in ("0.5", "2")),
    *(Cell("taxi", 8, 4, e, 18) for e in ("0.5", "2")),
    Cell("pos", 32, 2, "1", 18),
    Cell("movielens", 16, 3, "1", 16),
    Cell("adult3", 8, 3, "1", 18),
    *(Cell("diamonds", 6, 2, e, 18) for e in ("0.5", "2")),
]


def records(cell: Cell) -> tuple[Domain, Codes]:
    if cell.dataset == "diamonds":
        return load(cell.dataset)
    table = first(cell.dataset, cell.d)
    assert table is not None
    return table.domain, table.codes


def measure(cell: Cell, part: str) -> dict[str, Any]:
    """Return the error and the coverage of every repeat without a part, and processor seconds."""
    domain, codes = records(cell)
    targets = targets_of(domain, cell.k, TARGETS)
    method, found = methods.get("noise-aware"), list[list[float]]()
    with ExitStack() as stack:
        for owner, name, value in PARTS[part]:
            stack.enter_context(patch.object(owner, name, value))
        plan = local_plan(method, Request(domain, cell.epsilon, cell.users, cell.k))
        for repeat in range(REPEATS):
            random = np.random.default_rng((91, repeat))
            devices = codes[random.integers(len(codes), size=cell.users)]
            seed = np.random.SeedSequence((92, repeat))
            fitted, rows = method.fit(plan, collect(plan, devices, seed, exact=True)), []
            for target in targets:
                truth = domain.histogram(devices, target) / cell.users
                answer = fitted.marginal(target)
                held = inside(answer.table, answer.stderr, truth)
                rows.append((sse(answer.table, truth), float(held.mean())))
            found.append(np.mean(rows, axis=0).tolist())
    errors, held = np.array(found).T.tolist()
    return {"errors": errors, "coverage": held}


def run(only: list[str]) -> None:
    """Measure what is missing, the whole model first."""
    for cell in CELLS:
        for part in PARTS:
            name = f"{cell.name}/{part}"
            if (not only or part in (ALL, *only)) and STUDY.claim(name):
                STUDY.put(name, measure(cell, part))


def worth(found: dict[str, dict[str, Any]], part: str) -> tuple[list[float], list[float], float]:
    """Return log ratios of errors and coverages by cell, and the mean coverage of the whole."""
    logs, held, whole = [], [], []
    for cell in CELLS:
        own, all_ = (found.get(f"{cell.name}/{one}") for one in (part, ALL))
        if own is None or all_ is None or own == all_:  # or it has nothing to do here
            continue
        logs.append(float(np.log(np.array(own["errors"]) / np.array(all_["errors"])).mean()))
        held.append(float(np.mean(own["coverage"])))
        whole.append(float(np.mean(all_["coverage"])))
    return logs, held, float(np.mean(whole)) if whole else 0.95


def table(found: dict[str, dict[str, Any]]) -> Grid:
    """Return the worth of each part over the cells that it concerns."""
    grid = Grid("without", "cells", "error", "worst", "coverage", "with", box=None)
    for part in PARTS:
        logs, held, whole = worth(found, part)
        if part == ALL or not logs:
            continue
        error = 1.0 if len(logs) < 2 else float(np.std(logs, ddof=1) / np.sqrt(len(logs)))
        ratio = f"{np.exp(np.mean(logs)):.3f} ± {error:.3f}"
        shown = f"{np.exp(max(logs)):.2f}", f"{np.mean(held):.3f}", f"{whole:.3f}"
        grid.add_row(part, str(len(logs)), ratio, *shown)
    return grid


def main() -> None:
    """Measure what is missing, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", choices=("run", "table"))
    parser.add_argument("--only", action="append", default=[], choices=PARTS)
    given = parser.parse_args()
    if given.task == "run":
        run(given.only)
    Console(width=100).print(table(STUDY.read()))


if __name__ == "__main__":
    main()
