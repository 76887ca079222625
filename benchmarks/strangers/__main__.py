"""Measure the noise-aware method beside CALM on data sets that its authors never had.

`benchmarks.strangers.sets` describes the sets and their parts; cells are those of the grid.
``--methods all`` measures every method of the grid; another ``--results`` starts anew.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
from collections.abc import Iterator
from pathlib import Path

from benchmarks.grid.__main__ import EPSILONS, LOG_USERS, run, share
from benchmarks.grid.cells import OURS, Cell
from benchmarks.strangers.sets import PARTS, SETS, sizes
from benchmarks.strangers.table import show
from benchmarks.study import Study

RESULTS = Path(__file__).resolve().parents[1] / "results"
METHODS = {"calm": [OURS, "calm"], "all": None}
TARGET_SIZES = (2, 3)


def cells(names: tuple[str, ...]) -> Iterator[Cell]:
    """Yield the cells of some sets; cells with the same devices are neighbours."""
    for name in names:
        for d in sizes(name):
            for log_users in LOG_USERS:
                for k in TARGET_SIZES:
                    for epsilon in EPSILONS:
                        yield Cell(name, d, k, epsilon, log_users)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("what", choices=("run", "table"))
    parser.add_argument("--part", choices=PARTS, default="development", help="%(default)s")
    parser.add_argument(
        "--methods", choices=METHODS, default="calm", help="methods to compare with (%(default)s)"
    )
    parser.add_argument("--only", type=lambda s: s.split(","), help="only these sets")
    parser.add_argument("--share", type=share, default=(1, 1), help="part of the cells, as in 1/2")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--targets", type=int, default=50)
    parser.add_argument("--results", type=Path, help="file of results")
    args = parser.parse_args()
    unknown = set(args.only or ()) - set(SETS)
    if unknown:
        parser.error(f"no such set: {', '.join(sorted(unknown))}; there are {', '.join(SETS)}")
    study = Study(args.results or RESULTS / f"strangers-{args.part}.jsonl")
    if args.what == "run":
        part, parts = args.share
        names = tuple(name for name in PARTS[args.part] if not args.only or name in args.only)
        args.methods = METHODS[args.methods]
        run(study, list(cells(names))[part - 1 :: parts], args)  # whichever process starts first
    else:
        show(list(study.read().values()))


if __name__ == "__main__":
    main()
