"""Size and power of the test of independence, of noise-aware or of another method.

    python -m benchmarks.accuracy.independence --method calm

Independent attributes of 2 to 4 labels, of 8 labels of skewed shares, and bits of which 3 % are
ones; then a bit that copies another one with a probability. 30,000 devices, level 5 %.
"""

from __future__ import annotations

import argparse
import os
from itertools import combinations

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from rich.console import Console
from rich.table import Table as Grid

from calmstream.estimators import methods
from calmstream.estimators.analysis.report import associate
from calmstream.estimators.arrays import Floats
from calmstream.estimators.domain import Attribute, Domain
from calmstream.estimators.methods.base import Request
from calmstream.evaluation.population import collect, local_plan

DEVICES, RUNS = 30_000, 40
FEW, SKEWED, RARE = (2, 3, 4, 2), (8, 8, 8, 8), (2, 2, 2, 2)


def shares(labels: int, kind: tuple[int, ...]) -> Floats:
    if kind is RARE:
        return np.array([0.97, 0.03])
    rising = np.arange(1.0, labels + 1.0) ** (2.0 if kind is SKEWED else 1.0)
    return np.asarray(rising / rising.sum())


def called_dependent(
    name: str, kind: tuple[int, ...], epsilon: str, copied: float = 0.0
) -> list[bool]:
    """Return verdicts on all independent pairs, or on the last attribute, a copy of the first."""
    attributes = [Attribute(f"a{i}", tuple(map(str, range(r)))) for i, r in enumerate(kind)]
    domain, method = Domain(tuple(attributes)), methods.get(name)
    plan = local_plan(method, Request(domain, epsilon, DEVICES, 2))
    found = []
    for run in range(RUNS):
        random = np.random.default_rng((81, run))
        drawn = [random.choice(r, DEVICES, p=shares(r, kind)) for r in kind]
        codes = np.stack(drawn, axis=1).astype(np.uint16)
        codes[:, -1] = np.where(random.random(DEVICES) < copied, codes[:, 0], codes[:, -1])
        model = method.fit(
            plan, collect(plan, codes, np.random.SeedSequence((82, run)), exact=True)
        )
        for pair in combinations(range(len(kind)), 2) if not copied else [(0, len(kind) - 1)]:
            result = associate(model, domain, pair, DEVICES).test
            assert result is not None
            found.append(bool(result.dependent))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--method", default="noise-aware", help="(default: %(default)s)")
    method = parser.parse_args().method
    grid = Grid("records", "epsilon", "pairs tested", "called dependent", box=None)
    for name, kind in (("2 to 4 labels", FEW), ("8 skewed labels", SKEWED), ("3 % ones", RARE)):
        for epsilon in ("0.2", "1", "2", "4"):
            called = called_dependent(method, kind, epsilon)
            grid.add_row(name, epsilon, str(len(called)), f"{np.mean(called):.1%}")
    for copied in (0.1, 0.2, 0.3, 0.5):
        called = called_dependent(method, FEW, "1", copied)
        grid.add_row(f"copied: {copied}", "1", str(len(called)), f"{np.mean(called):.0%}")
    Console(width=100).print(grid)


if __name__ == "__main__":
    main()
