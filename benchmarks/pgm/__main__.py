"""Compare the noise-aware method with Private-PGM (the package `mbi`) on the same tallies.

Both get the same views, tallies and weights. ``run`` measures missing points, ``run --ours`` our
side of the others again, without the package. Everything runs on one core.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "0"

import argparse
import sys
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path

from benchmarks.pgm.measure import accuracy, ours_again
from benchmarks.pgm.problem import Point
from benchmarks.pgm.table import show
from benchmarks.populations import first
from benchmarks.study import Study

RESULTS = Path(__file__).resolve().parents[1] / "results" / "pgm.jsonl"
DATASETS = ("kosarak", "pos", "movielens", "taxi", "adult3", "census3")
"""Data sets. ``--only adult`` adds Adult with all its labels (1.8 million
cells); one point of it takes hours."""
EPSILONS = ("0.2", "0.5", "1", "2")


def points(args: argparse.Namespace) -> Iterator[Point]:
    # The innermost loop is over data sets: those of binary attributes have the same views, so they
    # share the compiled code.
    order = product(args.d or (8, 16), args.n or (18, 16), args.epsilon or EPSILONS)
    for d, log_users, epsilon in order:
        for dataset in args.only or DATASETS:
            if first(dataset, d) is not None:
                yield Point(dataset, d, epsilon, log_users)


def run(args: argparse.Namespace) -> None:
    """Measure the missing points, or our side of the others."""
    # The package warns that with 32-bit numbers the fit may stall beyond 100,000 devices.
    os.environ["JAX_ENABLE_X64"] = "1"
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    study = Study(RESULTS)
    results = study.read()
    started = time.monotonic()
    for point in points(args):
        name = f"accuracy-{point.name}"
        if (name in results) != args.ours:
            continue
        result = ours_again(point, results[name]) if args.ours else accuracy(point, args.repeats)
        study.put(name, result)
        spent = time.monotonic() - started
        print(f"{name}: {spent:.0f} s in all", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("what", choices=("run", "table"))
    parser.add_argument("--ours", action="store_true", help="measure only our side again")
    parser.add_argument("--only", type=lambda s: s.split(","), help="data sets")
    parser.add_argument("--epsilon", type=lambda s: s.split(","))
    for name in ("d", "n"):
        parser.add_argument(f"--{name}", type=lambda s: [int(x) for x in s.split(",")])
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    if args.what == "table":
        show(list(Study(RESULTS).read().values()))
    else:
        run(args)


if __name__ == "__main__":
    main()
