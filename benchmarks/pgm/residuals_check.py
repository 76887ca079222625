"""Compare `benchmarks.pgm.residuals` with the authors' program of GReM-LNN on a small domain.

The authors' program is a package `rem`, published in the repository
bcmullins/efficient-marginal-reconstruction. Put the folder ``src`` of a copy on PYTHONPATH, in an
environment with torch, linear_operator, pandas and scipy.

    PYTHONPATH=.:COPY/src python -m benchmarks.pgm.residuals_check

Both programs get the same noisy tables with the same deviations. The first example has views of
all pairs of four attributes with two to four labels; in the second one, no view holds the targets.
The program ends with 1 if a cell differs by more than `LIMIT`.
"""

from __future__ import annotations

import contextlib
import io
import sys
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.pgm.problem import Measurement
from benchmarks.pgm.residuals import UNSEEN_VARIANCES, fit
from calmstream.estimators.domain import Attribute, Attributes, Domain

LIMIT = 0.002
"""Largest difference of a share; the authors' program computes with 32 bits and stops early."""

USERS = 1000.0
LABELS = (2, 3, 4, 2)


def main() -> int:
    """Compare the programs; return 1 if they differ."""
    pairs = list(combinations(range(4), 2))
    worst = 0.0
    for views, targets in ((pairs, pairs), ([(0, 1), (1, 2)], [(0, 2), (0, 1, 2)])):
        attributes = (Attribute(f"a{i}", tuple(map(str, range(c)))) for i, c in enumerate(LABELS))
        domain = Domain(tuple(attributes))
        measured = _measured(domain, views)
        mine = fit(domain, measured, targets, UNSEEN_VARIANCES["GReM-LNN"]).tables
        theirs = _published(domain, measured, sorted(mine))
        gap = max(float(np.abs(mine[one] - theirs[one]).max()) for one in mine)
        lowest = min(float(m.table.min()) for m in measured)
        print(f"{len(mine)} tables: largest difference {gap:.5f}; lowest noisy cell {lowest:.3f}")
        worst = max(worst, gap)
    return int(worst > LIMIT)


def _measured(domain: Domain, views: list[Attributes]) -> list[Measurement]:
    """Return noisy tables of a random sparse population."""
    generator = np.random.default_rng(1)
    joint = generator.dirichlet(np.full(domain.size(), 0.15)).reshape(domain.cardinalities)
    found = []
    for number, view in enumerate(views):
        axes = tuple(i for i in range(len(domain)) if i not in view)
        deviation = 0.04 * (1 + number % 3)
        noise = deviation * generator.normal(size=domain.size(view))
        found.append(Measurement(view, joint.sum(axis=axes).ravel() + noise, deviation))
    return found


def _published(
    domain: Domain, measured: list[Measurement], wanted: list[Attributes]
) -> dict[Attributes, NDArray[np.float64]]:
    """Return the tables of the authors' program, in shares."""
    import torch
    from rem.algebra import MarginalWorkload, VStack
    from rem.domain import Domain as Theirs
    from rem.dual_ascent import dualAscent
    from rem.reconstruction import ivwFromResiduals

    shape = dict(enumerate(domain.cardinalities))
    own = Theirs.fromdict(shape)
    views = VStack([MarginalWorkload(m.attributes, own) for m in measured])
    y = [torch.tensor(USERS * m.table, dtype=torch.float32) for m in measured]
    parts, values, deviations = views.decomposeIntoResiduals(
        y=y, sigma=[float(USERS * m.deviation) for m in measured]
    )
    merged, values, deviations = ivwFromResiduals(parts, values, deviations)
    columns = merged.cols()
    scale = _scale(columns, deviations)
    values = [torch.full((1,), USERS) if not c else v for c, v in zip(columns, values, strict=True)]
    deviations = [1e-2 if not c else d / scale for c, d in zip(columns, deviations, strict=True)]
    targets = VStack([MarginalWorkload(one, own) for one in wanted])
    solver = dualAscent(columns, targets.cols(), values, deviations, own)
    with contextlib.redirect_stdout(io.StringIO()):
        solver.solveLooping(rounds=1001, t=0.01, early_stopping=0.01)
    best: list[Any] = [solver.y_opt_dict[part] for part in solver.R_Q]
    answers = (targets @ solver.residuals_all.pinv()) @ best
    return {
        one: np.asarray(table, np.float64) / USERS
        for one, table in zip(wanted, answers, strict=True)
    }


def _scale(columns: list[Attributes], deviations: list[float]) -> float:
    """Return the factor of deviations whose geometric mean is 2^k after division."""
    logs = [np.log(d / 2 ** len(c)) for c, d in zip(columns, deviations, strict=True) if c]
    return float(np.exp(np.mean(logs)))


if __name__ == "__main__":
    sys.exit(main())
