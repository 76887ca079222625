"""Cormode et al.: the oracles of section 3.1, Table 2 and Fig. 3.

``python -m benchmarks.accuracy.basics`` prints them in a few seconds. A report has its columns'
bits and those of the number of its view. The measured error is the root of n times the squared
error, in the mean over 50 marginals of ten collections of 2^18 devices, each with d bits of
MovieLens.
"""

from __future__ import annotations

import argparse
from math import ceil, exp, log2

import numpy as np

from benchmarks.accuracy.applications import fitted
from benchmarks.accuracy.pieces import LN3
from benchmarks.accuracy.populations import Devices
from calmstream.estimators import methods
from calmstream.estimators.domain import Domain
from calmstream.estimators.mechanisms.base import Column
from calmstream.estimators.mechanisms.registry import standard
from calmstream.estimators.methods.base import LinearAnswers, Request
from calmstream.evaluation.population import local_plan

N, RUNS = 1 << 18, 10
METHODS = ("inp-rr", "inp-ps", "inp-ht", "marg-rr", "marg-ps", "marg-ht")


def sampled_cell(epsilon: float, cells: int) -> float:
    """Return n times the variance of an empty cell by RRS: one sampled cell, and its bit by RR."""
    return cells * exp(epsilon) / (exp(epsilon) - 1) ** 2


def oracles() -> None:
    print("n · variance of an empty cell at epsilon ln 3\n")
    print("| cells | RRS, a sampled cell | PS | PRR | PRR of Wang et al. |\n|--:|--:|--:|--:|--:|")
    for k in (1, 2, 3, 4, 8):
        found = [sampled_cell(float(LN3), 1 << k)]
        for name in ("grr", "sue", "oue"):
            mechanism = standard(name, LN3, 1 << k)
            found.append(float(mechanism.variance(1, np.zeros(1 << k))[0]))
        print(f"| {1 << k} | " + " | ".join(f"{v:.3g}" for v in found) + " |")


def published(method: str, d: int, k: int) -> tuple[int, float]:
    """Return Table 2: bits of a report, and the leading error."""
    return {
        "inp-rr": (2**d, 2 ** (k / 2) * 2**d),
        "inp-ps": (d, 2 ** (k / 2) * 2**d),
        "inp-ht": (d + 1, 2 ** (k / 2) * d**k),
        "marg-rr": (d + 2**k, 2**k * d ** (k / 2)),
        "marg-ps": (d + k, 2 ** (1.5 * k) * d ** (k / 2)),
        "marg-ht": (d + k + 1, 2 ** (1.5 * k) * d ** (k / 2)),
    }[method]


def costs() -> None:
    print("\nBits of a report, and leading error as Table 2 has it; measured: root of n · SSE\n")
    print("| method | d, k | bits, Table 2 | bits here | error, Table 2 | measured |")
    print("|---|---|--:|--:|--:|--:|")
    for d, k in ((8, 2), (8, 3)):
        for method in METHODS:
            plan = local_plan(methods.get(method), Request(Domain.binary(d), LN3, N, k))
            views = sum(len(group.views) for group in plan.groups)
            columns = plan.mechanisms[0].columns
            bits = ceil(log2(views)) + sum(_bits(column) for column in columns)
            wanted, measured = published(method, d, k), error(method, d, k)
            print(
                f"| {method} | {d}, {k} | {wanted[0]} | {bits} | {wanted[1]:.0f} | {measured:.1f} |"
            )


def error(method: str, d: int, k: int) -> float:
    """Return the root of n times the mean squared error of marginals before clipping."""
    errors = []
    for run in range(RUNS):
        drawn = Devices("movielens", d, N, run)
        model = fitted(method, LN3, k, drawn, (71, d, k, run))
        assert isinstance(model, LinearAnswers)
        targets = drawn.targets(k, 50)
        errors += [np.square(model.unclipped(t) - drawn.truth(t)).sum() for t in targets]
    return float(N * np.mean(errors)) ** 0.5


def _bits(column: Column) -> int:
    return column.bound if column.kind == "bits" else ceil(log2(column.bound))


def correlations() -> None:
    """Fig. 3: Pearson's coefficient of every pair of taxi attributes, exact and by InpHT."""
    drawn = Devices("taxi-whole", 8, N, 0)
    model = fitted("inp-ht", "1.1", 2, drawn, (72,))
    print("\nTaxi: Pearson's coefficient, exact (above) and by InpHT at epsilon 1.1 (below)\n")
    print("| | " + " | ".join(drawn.domain.names) + " |\n|---|" + "--:|" * 8)
    for i, name in enumerate(drawn.domain.names):
        cells = []
        for j in range(8):
            pair = (min(i, j), max(i, j))
            table = drawn.truth(pair) if i < j else model.marginal(pair).table if i != j else None
            cells.append("" if table is None else f"{pearson(table.reshape(2, 2)):.2f}")
        print(f"| {name} | " + " | ".join(cells) + " |")


def pearson(table: np.ndarray) -> float:
    a, b = table[1].sum(), table[:, 1].sum()
    return float((table[1, 1] - a * b) / (a * (1 - a) * b * (1 - b)) ** 0.5)


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    oracles()
    costs()
    correlations()


if __name__ == "__main__":
    main()
