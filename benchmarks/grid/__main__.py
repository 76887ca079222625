"""Compare the noise-aware method with all others on real data.

A *cell* is a data set, d, k, epsilon and a number of devices, measured with all methods. ``run``
measures missing cells (several processes divide them), ``table`` prints the results, and ``again``
measures one method again with the same devices, targets and seeds; ``--share 1/2`` is a part.
`benchmarks.grid.cells` describes cells, `benchmarks.populations` the data sets.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from benchmarks.grid.cells import OURS, Cell, measure
from benchmarks.grid.table import show
from benchmarks.populations import first
from benchmarks.study import Study

RESULTS = Path(__file__).resolve().parents[1] / "results" / "grid.jsonl"
DATASETS = ("kosarak", "pos", "taxi", "movielens", "adult", "census")
SIZES = (8, 16, 32)
TARGET_SIZES = (2, 3, 6)
EPSILONS = ("0.2", "0.5", "1", "2")
LOG_USERS = (16, 18)


def cells(args: argparse.Namespace) -> Iterator[Cell]:
    """Yield the requested cells; cells with the same devices and true tables are neighbours."""
    for d in args.d or SIZES:
        for dataset in args.only or DATASETS:
            if first(dataset, d) is None:
                continue
            for log_users in args.n or LOG_USERS:
                for k in args.k or TARGET_SIZES:
                    for epsilon in args.epsilon or EPSILONS:
                        yield Cell(dataset, d, k, epsilon, log_users)


def run(study: Study, wanted: Iterable[Cell], args: argparse.Namespace) -> None:
    started = time.monotonic()
    results = study.read()
    todo = [cell for cell in wanted if cell.name not in results]
    for number, cell in enumerate(todo, 1):
        if not study.claim(cell.name):
            continue
        try:
            result = measure(cell, repeats=args.repeats, count=args.targets, only=args.methods)
            study.put(cell.name, result)
        finally:
            study.release(cell.name)
        mean = {m: float(np.mean(e)) for m, e in result["errors"].items()}
        ratio = mean[OURS] / mean["calm"] if {OURS, "calm"} <= set(mean) else float("nan")
        print(
            f"{number}/{len(todo)} {cell.name}: {OURS}/calm {ratio:.3f}, "
            f"{result['seconds']['all']:.1f} s of CPU, {time.monotonic() - started:.0f} s in all",
            file=sys.stderr,
            flush=True,
        )


def again(args: argparse.Namespace) -> None:
    """Measure some methods again in the cells that have a result; keep the others' results."""
    study = Study(args.results)
    part, parts = args.share
    results = study.read()
    mine = [cell for cell in cells(args) if cell.name in results][part - 1 :: parts]
    for number, cell in enumerate(mine, 1):
        old = results[cell.name]
        repeats = len(old["errors"]["uniform"])
        new = measure(cell, repeats=repeats, count=args.targets, only=args.methods)
        if new["errors"]["uniform"] != old["errors"]["uniform"]:
            sys.exit(f"{cell.name}: other devices or targets than before; measure the whole cell")
        for what in ("errors", "product", "coverage"):
            old[what] |= new[what]
        old["seconds"]["methods"] |= new["seconds"]["methods"]
        study.put(cell.name, old)
        print(f"{number}/{len(mine)} {cell.name}", file=sys.stderr, flush=True)


def share(text: str) -> tuple[int, int]:
    """Parse a share of the cells such as ``2/3``, the second of three parts: return (2, 3)."""
    part, parts = (int(x) for x in text.split("/"))
    if not 1 <= part <= parts:
        raise argparse.ArgumentTypeError(f"{text}: the first of {parts} parts is 1/{parts}")
    return part, parts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("what", choices=("run", "again", "table"))
    parser.add_argument("--only", type=lambda s: s.split(","), help="only these data sets")
    parser.add_argument("--methods", type=lambda s: s.split(","), help="only these methods")
    parser.add_argument("--epsilon", type=lambda s: s.split(","))
    for name in ("d", "k", "n"):
        parser.add_argument(f"--{name}", type=lambda s: [int(x) for x in s.split(",")])
    parser.add_argument(
        "--share",
        type=share,
        default=(1, 1),
        help="part of the cells for `again`, such as 1/2",
    )
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--targets", type=int, default=50)
    parser.add_argument("--results", type=Path, default=RESULTS, help="file (%(default)s)")
    args = parser.parse_args()
    if args.what == "run":
        run(Study(args.results), cells(args), args)
    elif args.what == "again":
        again(args)
    else:
        show(list(Study(args.results).read().values()))


if __name__ == "__main__":
    main()
