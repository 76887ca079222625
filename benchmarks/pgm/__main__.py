"""The noise-aware method against Private-PGM (`mbi`), on the same views, tallies and noise weights.

Three parts, each resumable, one JSON file per point under ``results/pgm``:

- ``accuracy``: squared errors over the noise-aware plan's own views, paired by seed;
- ``speed``: seconds of a fit and 50 answers over 50 four-way views of 16 attributes;
- ``large``: 32 attributes, where the exact fit is tried within a limit of memory and time.

    make pgm                                     # all parts, then the table
    make pgm ARGS="run --part speed"
    make pgm ARGS=table

Private-PGM's results depend on the views and tallies alone. They are kept in ``.cache/pgm`` under a
digest of those, so that only the noise-aware side is computed again (``run --again``) where it
changed and the plans did not. Without that folder and without the package ``run --part accuracy
--ours`` does so for the points that are there: a result has the digests of what both were given.
Everything runs on one core; seconds are of processor time.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "0"

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

import orjson

from benchmarks.pgm.measure import accuracy, large, ours_again, speed
from benchmarks.pgm.problem import Point
from benchmarks.pgm.table import show
from benchmarks.populations import first

RESULTS = ROOT / "benchmarks" / "results" / "pgm"
PARTS = {"accuracy": accuracy, "speed": speed, "large": large}
DATASETS = ("kosarak", "pos", "movielens", "taxi", "adult3", "census3")
"""Adult as it is (1.8 million cells) can be asked for; a point of it takes hours."""
EPSILONS = ("0.2", "0.5", "1", "2")


def points(part: str, args: argparse.Namespace) -> Iterator[Point]:
    """What a part measures; small domains first."""
    if part == "speed":
        yield from (Point("kosarak", 16, e, 18, "four-way") for e in ("1", "2"))
    elif part == "large":
        yield Point("kosarak", 32, "1", 18)
    else:
        # Data sets innermost: those of bits share a plan's views, and so what was compiled.
        order = product(args.d or (8, 16), args.n or (18, 16), args.epsilon or EPSILONS)
        for d, log_users, epsilon in order:
            for dataset in args.only or DATASETS:
                if first(dataset, d) is not None:
                    yield Point(dataset, d, epsilon, log_users)


def run(part: str, args: argparse.Namespace) -> None:
    """Measure what is missing, or everything again."""
    # The package warns that 32 bits may stall beyond 100,000 devices: errors are measured with 64.
    # Seconds are measured with its default, which is faster.
    os.environ["JAX_ENABLE_X64"] = "1" if part == "accuracy" else "0"
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    RESULTS.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    for point in points(part, args):
        path = RESULTS / f"{part}-{point.name}.json"
        there = path.exists()
        wanted = there if args.ours else args.again or not there
        if not wanted:
            continue
        if args.ours:
            result = ours_again(point, orjson.loads(path.read_bytes()))
        else:
            result = PARTS[part](point, args.repeats)
        partial = path.with_suffix(".partial")
        partial.write_bytes(orjson.dumps(result, option=orjson.OPT_INDENT_2))
        partial.rename(path)
        spent = time.monotonic() - started
        print(f"{path.stem}: {spent:.0f} s in all", file=sys.stderr, flush=True)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("what", choices=("run", "table"))
    parser.add_argument("--part", choices=PARTS, help="only this part")
    parser.add_argument("--again", action="store_true", help="measure what is there again")
    parser.add_argument("--ours", action="store_true", help="of what is there, our side again")
    parser.add_argument("--only", type=lambda s: s.split(","), help="data sets of accuracy")
    parser.add_argument("--epsilon", type=lambda s: s.split(","))
    for name in ("d", "n"):
        parser.add_argument(f"--{name}", type=lambda s: [int(x) for x in s.split(",")])
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    if args.what == "table":
        show([orjson.loads(path.read_bytes()) for path in sorted(RESULTS.glob("*.json"))])
    elif args.part:
        run(args.part, args)
    else:
        # The precision of a process cannot be changed once the package is loaded.
        for part in PARTS:
            subprocess.run(
                [sys.executable, "-m", "benchmarks.pgm", *sys.argv[1:], "--part", part], check=True
            )


if __name__ == "__main__":
    main()
