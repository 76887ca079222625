"""The noise-aware method against every other one, on real data: errors by cell, paired by seed.

A *cell* is one (data set, d, k, epsilon, n): all methods, all repeats, one JSON file. Cells that
exist are not computed again, so the run can be stopped and resumed; processes that run the same
command side by side share the cells among them:

    python -m benchmarks.grid run & python -m benchmarks.grid run
    python -m benchmarks.grid table > benchmarks/results/grid.md

After a change of one method only, its part of every cell is measured again, with the same devices,
targets and seeds as the others had, by the first and the second of two processes:

    python -m benchmarks.grid again --methods noise-aware --share 1/2

How a cell is measured, and which methods are left out, is said in `benchmarks.grid.cells`; the data
sets, with the census' rule for columns of many values, in `benchmarks.populations`. Targets are 50
k-sets of attributes whose tables have at most 2^16 cells, or all of these sets where there are
fewer: that leaves out some of the 6-way tables of Adult and the census.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]

import numpy as np
import orjson

from benchmarks.grid.cells import OURS, Cell, measure
from benchmarks.grid.table import show
from benchmarks.populations import first

RESULTS = ROOT / "benchmarks" / "results" / "grid"
DATASETS = ("kosarak", "pos", "taxi", "movielens", "adult", "census")
SIZES = (8, 16, 32)
TARGET_SIZES = (2, 3, 6)
EPSILONS = ("0.2", "0.5", "1", "2")
LOG_USERS = (16, 18)


def cells(args: argparse.Namespace) -> Iterator[Cell]:
    """All cells asked for that exist; those that share devices and true tables together."""
    for d in args.d or SIZES:
        for dataset in args.only or DATASETS:
            if first(dataset, d) is None:
                continue
            for log_users in args.n or LOG_USERS:
                for k in args.k or TARGET_SIZES:
                    for epsilon in args.epsilon or EPSILONS:
                        yield Cell(dataset, d, k, epsilon, log_users)


def claim(path: Path) -> bool:
    """Take a cell that nobody has computed or is computing now.

    A claim holds the process' number, so that those of processes that have ended count no more.
    """
    mark = path.with_suffix(".claim")
    if path.exists():
        return False
    try:
        with mark.open("x") as file:
            file.write(str(os.getpid()))
    except FileExistsError:
        if _alive(mark):
            return False
        mark.unlink(missing_ok=True)
        return claim(path)
    return not path.exists()


def _alive(mark: Path) -> bool:
    try:
        os.kill(int(mark.read_text() or os.getpid()), 0)
    except (ProcessLookupError, FileNotFoundError):
        return False
    return True


def run(args: argparse.Namespace) -> None:
    """Compute what is missing."""
    args.results.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    todo = [cell for cell in cells(args) if not (args.results / f"{cell.name}.json").exists()]
    for number, cell in enumerate(todo, 1):
        path = args.results / f"{cell.name}.json"
        if not claim(path):
            continue
        try:
            result = measure(cell, repeats=args.repeats, count=args.targets, only=args.methods)
            write(path, result)
        finally:
            path.with_suffix(".claim").unlink(missing_ok=True)
        mean = {m: float(np.mean(e)) for m, e in result["errors"].items()}
        ratio = mean[OURS] / mean["calm"] if {OURS, "calm"} <= set(mean) else float("nan")
        print(
            f"{number}/{len(todo)} {cell.name}: {OURS}/calm {ratio:.3f}, "
            f"{result['seconds']['all']:.1f} s of CPU, {time.monotonic() - started:.0f} s in all",
            file=sys.stderr,
            flush=True,
        )


def again(args: argparse.Namespace) -> None:
    """Measure some methods once more in the cells that exist, and keep what others had."""
    part, parts = args.share
    mine = [c for c in cells(args) if (args.results / f"{c.name}.json").exists()][part - 1 :: parts]
    for number, cell in enumerate(mine, 1):
        path = args.results / f"{cell.name}.json"
        old = orjson.loads(path.read_bytes())
        repeats = len(old["errors"]["uniform"])
        new = measure(cell, repeats=repeats, count=args.targets, only=args.methods)
        if new["errors"]["uniform"] != old["errors"]["uniform"]:
            sys.exit(f"{cell.name}: other devices or targets than before; run it whole")
        for what in ("errors", "product", "coverage"):
            old[what] |= new[what]
        old["seconds"]["methods"] |= new["seconds"]["methods"]
        old |= {what: new[what] for what in ("predicted", "unbounded", "auto")}
        write(path, old)
        print(f"{number}/{len(mine)} {cell.name}", file=sys.stderr, flush=True)


def write(path: Path, result: dict[str, Any]) -> None:
    """Put a cell's result in place whole."""
    partial = path.with_suffix(".partial")
    partial.write_bytes(orjson.dumps(result, option=orjson.OPT_INDENT_2))
    partial.rename(path)


def share(text: str) -> tuple[int, int]:
    """``2/3``: the second of three parts."""
    part, parts = (int(x) for x in text.split("/"))
    if not 1 <= part <= parts:
        raise argparse.ArgumentTypeError(f"{text}: the first of {parts} parts is 1/{parts}")
    return part, parts


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("what", choices=("run", "again", "table"))
    parser.add_argument("--only", type=lambda s: s.split(","), help="data sets")
    parser.add_argument("--methods", type=lambda s: s.split(","), help="only these")
    parser.add_argument("--epsilon", type=lambda s: s.split(","))
    for name in ("d", "k", "n"):
        parser.add_argument(f"--{name}", type=lambda s: [int(x) for x in s.split(",")])
    parser.add_argument("--share", type=share, default=(1, 1), help="of `again`, as 1/2")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--targets", type=int, default=50)
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder (%(default)s)")
    args = parser.parse_args()
    if args.what == "run":
        run(args)
    elif args.what == "again":
        again(args)
    else:
        paths = sorted(args.results.glob("*.json"))
        show([orjson.loads(path.read_bytes()) for path in paths])


if __name__ == "__main__":
    main()
