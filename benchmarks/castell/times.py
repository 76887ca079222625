"""Measure times of the Castell methods and of the central model, and check the hybrid's choice.

    python -m benchmarks.castell.times [times|hybrid|central]

It has three parts; all run by default:

- ``times``: seconds to estimate a marginal of w attributes from randomised counts (the *inverse* of
  the randomisation), axis by axis as in `block_inverse`, and naively by one
  large matrix;
- ``hybrid``: the error of the scheme that chooses between two others for each marginal, and whether
  the choice is good;
- ``central``: seconds of DP Marginals (`central.dp_marginals`).

Needs the data folder. `benchmarks.castell.avd` measures errors against w, n and epsilon.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import time
from collections.abc import Callable, Iterable
from functools import reduce
from itertools import combinations

import numpy as np

from benchmarks.populations import ADULT, DATA
from calmstream.estimators.castell.design import product_group
from calmstream.estimators.castell.model import ProductModel
from calmstream.estimators.central.accounting import allocate, whole_budget
from calmstream.estimators.central.dp_marginals import Settings, release
from calmstream.estimators.central.tuples import Records, size
from calmstream.estimators.mechanisms.product_grr import ProductGRR
from calmstream.estimators.numerics.block_inverse import AxisChannel, channels, unmix
from calmstream.estimators.plan.request import Request
from calmstream.estimators.randomness import SeededRandomness, SystemRandomness
from calmstream.tables import Table, read_table

SCHEMES = ("joint", "independent", "hybrid")
"""The hybrid scheme and, before it, the two from which it chooses."""

NAIVE_CELLS = 2000
"""Number of cells up to which the naive inverse is computed; its matrix has the square of that."""

HYBRID_RUNS = 5
"""Runs of the part ``hybrid``."""


def best(call: Callable[[], object], repeats: int = 5) -> float:
    """Return the seconds of the fastest of a few runs."""
    seconds = []
    for _ in range(repeats):
        started = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - started)
    return min(seconds)


def row(cells: Iterable[object]) -> None:
    """Print one row of a Markdown table."""
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def head(*cells: str) -> None:
    """Print the titles of a Markdown table."""
    print()
    row(cells)
    row("---" for _ in cells)


def times(table: Table) -> None:
    """Time the inverse of a table, beside the naive Kronecker inverse and against w."""
    single = tuple((i,) for i in range(8))
    request = Request(table.domain, "8", len(table.codes), 2)
    mechanism = product_group(request, single, single)[1]
    rng = np.random.default_rng(1)
    head("w on Adult", "cells (least to most)", "castell, ms a table (mean)", "µs per 1,000 cells")
    for w in range(1, 7):
        seconds, cells = [], []
        for s in combinations(range(8), w):
            shape = table.domain.shape(s)
            observed, factors = rng.random(shape), channels(mechanism, s)
            seconds.append(best(lambda o=observed, f=factors: unmix(o, f), 3))
            cells.append(observed.size)
        per = 1e9 * sum(seconds) / sum(cells)
        row((w, f"{min(cells):,} to {max(cells):,}", f"{1e3 * np.mean(seconds):.3f}", f"{per:.1f}"))
    head("cells, 3 values an attribute", "castell, ms", "naive Kronecker inverse, ms")
    for w in range(2, 13, 2):
        equal_axes(w, rng.random((3,) * w))


def equal_axes(w: int, observed: np.ndarray) -> None:
    """Print the times for w attributes of 3 values: axis by axis and, if small enough, naively.

    Args:
        w: number of attributes.
        observed: randomised shares, shape (3,) * w.
    """
    factors = [AxisChannel((j,), 3, 0.25, 0.25) for j in range(w)]
    matrices = [f.gap * np.eye(3) + f.q for f in factors]
    naive = "-"
    if observed.size <= NAIVE_CELLS:

        def invert() -> None:
            np.linalg.inv(reduce(np.kron, matrices)) @ observed.reshape(-1)

        naive = f"{1e3 * best(invert, 2):.2f}"
    ours = best(lambda: unmix(observed, factors))
    row((f"3^{w} = {observed.size:,}", f"{1e3 * ours:.3f}", naive))


def hybrid(table: Table) -> None:
    """Print the mean SSE of the hybrid over all subsets, and of the two schemes it chooses from."""
    d, n = len(table.domain), len(table.codes)
    every, single = tuple(range(d)), tuple((i,) for i in range(d))
    values = table.domain.cells(table.codes, every)
    whole = table.domain.histogram(table.codes, every).reshape(table.domain.cardinalities) / n
    head("epsilon per attribute", "w", *SCHEMES, "hybrid / better", "largest of a run")
    for per_attribute in (1, 4):
        request = Request(table.domain, str(per_attribute * d), n, 2)
        mechanism = product_group(request, single, (every,))[1]
        counts = [
            mechanism.tally(mechanism.perturb(values, SeededRandomness(40 + run)), None, 1)[0]
            for run in range(HYBRID_RUNS)
        ]
        for w in range(1, 7):
            hybrid_row(table, whole, [(mechanism, c) for c in counts], per_attribute, w)


def hybrid_row(
    table: Table,
    whole: np.ndarray,
    collected: list[tuple[ProductGRR, np.ndarray]],
    per_attribute: int,
    w: int,
) -> None:
    """Print the row of one w: mean errors over all sets of w attributes and over all runs.

    Args:
        table: the data.
        whole: the true joint table, one axis per attribute.
        collected: mechanism and counts of each run.
        per_attribute: epsilon per attribute.
        w: number of attributes of a marginal.
    """
    subsets = list(combinations(range(whole.ndim), w))
    total = np.zeros((len(collected), len(SCHEMES)))
    for s in subsets:
        exact = whole.sum(axis=tuple(i for i in range(whole.ndim) if i not in s)).reshape(-1)
        for run, (mechanism, counts) in enumerate(collected):
            for place, scheme in enumerate(SCHEMES):
                model = ProductModel(table.domain, mechanism, counts, len(table.codes), scheme)
                total[run, place] += np.square(model.marginal(s).table - exact).sum()
    total /= len(subsets)
    ratios = total[:, 2] / total[:, :2].min(axis=1)
    means = total.mean(axis=0)
    shown = [f"{mean:.3e}" for mean in means]
    row((per_attribute, w, *shown, f"{means[2] / means[:2].min():.3f}", f"{ratios.max():.3f}"))


def central() -> None:
    """Time DP Marginals with 100,000 rows, 16 attributes, and tables of up to 3 attributes."""
    rng = np.random.default_rng(3)
    head("rows", "attributes", "mode", "tuples of 1, 2, 3", "seconds")
    n, d = 100_000, 16
    radix = tuple(4 + j % 5 for j in range(d))
    skewed = [np.minimum(rng.geometric(0.4, n) - 1, r - 1) for r in radix]
    codes = np.stack(skewed, axis=1)
    codes[rng.random((n, d)) < 0.1] = -1
    records = Records(codes, radix)
    allocation = allocate(whole_budget("1", "1e-6"), 3)
    for seen_only in (False, True):
        started = time.perf_counter()
        result = release(records, allocation, Settings(seen_only=seen_only), SystemRandomness())
        seconds = time.perf_counter() - started
        tuples = ", ".join(f"{size(level.cells):,}" for level in result.levels)
        mode = "Remark 1.1" if seen_only else "Algorithm 1"
        row((f"{n:,}", d, mode, tuples, f"{seconds:.1f}"))


def main() -> None:
    """Run the parts that the arguments name, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", help="times, hybrid, central; all by default")
    wanted = set(parser.parse_args().parts) or {"times", "hybrid", "central"}
    if unknown := wanted - {"times", "hybrid", "central"}:
        parser.error(f"no part {min(unknown)!r}; there are times, hybrid, central")
    if wanted & {"times", "hybrid"}:
        adult = read_table(DATA / "adult.csv.gz", columns=ADULT)
    if "times" in wanted:
        times(adult)
    if "central" in wanted:
        central()
    if "hybrid" in wanted:
        hybrid(adult)


if __name__ == "__main__":
    main()
