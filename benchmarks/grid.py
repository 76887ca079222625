"""The noise-aware method against every other one, on real data: errors by cell, paired by seed.

A *piece* is one (data set, d, k, epsilon, n): all methods, all repeats, one JSON file. Pieces that
exist are not computed again, so the run can be stopped and resumed, or split by ``--only``:

    python benchmarks/grid.py run --only kosarak,pos --n 16
    python benchmarks/grid.py table > benchmarks/results/grid.md

Tallies are drawn from their exact law; devices are drawn with replacement; targets, devices and the
seeds of noise are the same for all methods in a repeat. Methods predicted to be more than 5 times
worse than the best are skipped and listed in the piece.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from math import exp, log
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402 - threads are limited before it loads
import orjson  # noqa: E402

from calmstream.evaluate import MAX_TARGET_CELLS, evaluate  # noqa: E402
from calmstream.tables import Table, read_table  # noqa: E402
from estimators.errors import CalmstreamError  # noqa: E402
from estimators.methods.auto import pick, predictions  # noqa: E402
from estimators.methods.base import Request  # noqa: E402

DATA = ROOT.parent / "shared" / "data"
PIECES = ROOT / "benchmarks" / "results" / "grid"

ADULT = [
    "workclass",
    "education",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "income",
]
FILES = {
    "kosarak": ("kosarak32_first100k.npz", None),
    "pos": ("bmspos32_275k.npz", None),
    "taxi": ("taxi8.npz", None),
    "movielens": ("movielens17.npz", None),
    "adult": ("adult.csv.gz", ADULT),
    "census": ("ipums1980_us.csv.gz", None),
}
SIZES = (8, 16, 32)
TARGET_SIZES = (2, 3, 6)
EPSILONS = ("0.2", "0.5", "1", "2")
LOG_USERS = (16, 18)
FACTOR = 5.0
OURS = "noise-aware"
ALWAYS = (OURS, "calm", "uniform")


@dataclass(frozen=True)
class Piece:
    """One cell of the grid."""

    dataset: str
    d: int
    k: int
    epsilon: str
    log_users: int

    @property
    def path(self) -> Path:
        """Where its result is kept."""
        name = f"{self.dataset}-d{self.d}-k{self.k}-eps{self.epsilon}-n{self.log_users}.json"
        return PIECES / name


def table_of(dataset: str, d: int) -> Table | None:
    """The first d attributes, or None where there are fewer."""
    name, columns = FILES[dataset]
    table = read_table(DATA / name, columns=columns)
    if len(table.domain) < d:
        return None
    return read_table(DATA / name, columns=columns, attributes=d)


def pieces(args: argparse.Namespace) -> Iterator[tuple[Piece, Table]]:
    """All cells asked for that exist, small ones first."""
    for d in args.d or SIZES:
        for dataset in args.only or FILES:
            table = table_of(dataset, d)
            if table is None:
                continue
            for log_users in args.n or LOG_USERS:
                for epsilon in args.epsilon or EPSILONS:
                    for k in args.k or TARGET_SIZES:
                        largest = np.prod(sorted(table.domain.cardinalities)[-k:], dtype=float)
                        if largest <= MAX_TARGET_CELLS:
                            yield Piece(dataset, d, k, epsilon, log_users), table


def compute(piece: Piece, table: Table, args: argparse.Namespace) -> dict[str, Any]:
    """Errors of every method and repeat, and what was skipped."""
    users = 1 << piece.log_users
    found = predictions(Request(table.domain, piece.epsilon, users, piece.k))
    least = found[0].error or 0.0
    chosen = [p.method for p in found if p.error is not None and p.error <= FACTOR * least]
    methods = [*ALWAYS, *(m for m in chosen if m not in ALWAYS)]
    if args.methods:
        methods = [m for m in methods if m in args.methods]
    errors: dict[str, list[float]] = {}
    seconds: dict[str, float] = {}
    skipped = {
        p.method: p.reason or f"predicted {p.error:.3g}" for p in found if p.method not in methods
    }
    for method in methods:
        try:
            runs = [_once(piece, table, method, seed, args.targets) for seed in range(args.repeats)]
        except CalmstreamError as refusal:
            skipped[method] = str(refusal)
            continue
        errors[method] = [error for error, _ in runs]
        seconds[method] = float(np.mean([spent for _, spent in runs]))
    return {
        "piece": vars(piece),
        "targets": args.targets,
        "errors": errors,
        "estimate_seconds": seconds,
        "skipped": skipped,
        "auto": pick(found).method,
    }


def _once(piece: Piece, table: Table, method: str, seed: int, targets: int) -> tuple[float, float]:
    (result,) = evaluate(
        table,
        dataset=piece.dataset,
        methods=[method],
        epsilons=[piece.epsilon],
        k=piece.k,
        users=1 << piece.log_users,
        targets=targets,
        repeats=1,
        seed=seed,
        tallies="law",
    )
    return result.sse_mean, result.estimate_seconds


def run(args: argparse.Namespace) -> None:
    """Compute what is missing."""
    PIECES.mkdir(parents=True, exist_ok=True)
    todo = [(piece, table) for piece, table in pieces(args) if not piece.path.exists()]
    started = time.monotonic()
    for number, (piece, table) in enumerate(todo, 1):
        result = compute(piece, table, args)
        partial = piece.path.with_suffix(".partial")
        partial.write_bytes(orjson.dumps(result, option=orjson.OPT_INDENT_2))
        partial.rename(piece.path)
        spent = time.monotonic() - started
        left = spent / number * (len(todo) - number)
        mean = {m: float(np.mean(e)) for m, e in result["errors"].items()}
        ratio = mean[OURS] / mean["calm"] if {OURS, "calm"} <= set(mean) else float("nan")
        print(
            f"{number}/{len(todo)} {piece.path.stem}: {OURS}/calm {ratio:.3f}, {spent:.0f} s spent,"
            f" about {left:.0f} s left",
            file=sys.stderr,
            flush=True,
        )


def _ratio(ours: list[float], other: list[float]) -> tuple[float, bool]:
    """Ratio of mean errors, and whether ours is larger beyond two standard errors."""
    gap = np.array(ours) - np.array(other)
    spread = gap.std(ddof=1) / np.sqrt(gap.size) if gap.size > 1 else np.inf
    return float(np.mean(ours) / np.mean(other)), bool(gap.mean() > 2 * spread)


def table() -> None:
    """Markdown: every piece, then geometric means by epsilon."""
    found = [orjson.loads(path.read_bytes()) for path in sorted(PIECES.glob("*.json"))]
    columns = ["data", "d", "k", "epsilon", "log2 n", "SSE", "/ calm", "best other", "/ best"]
    columns += ["/ uniform", "auto"]
    print("| " + " | ".join(columns) + " |")
    print("|" + "---|" * len(columns))
    by_epsilon: dict[str, list[tuple[float, float]]] = {}
    near = worse_than_calm = worse_than_best = 0
    for result in found:
        piece, errors = result["piece"], result["errors"]
        mean = {m: float(np.mean(e)) for m, e in errors.items()}
        others = {m: e for m, e in mean.items() if m != OURS}
        best = min(others, key=others.__getitem__)
        calm, above_calm = _ratio(errors[OURS], errors["calm"])
        first, above_best = _ratio(errors[OURS], errors[best])
        even, _ = _ratio(errors[OURS], errors["uniform"])
        worse_than_calm += above_calm and calm > 1.05
        worse_than_best += above_best and first > 1.1
        near += mean[result["auto"]] <= 1.1 * min(mean.values())
        by_epsilon.setdefault(piece["epsilon"], []).append((calm, first))
        print(
            f"| {piece['dataset']} | {piece['d']} | {piece['k']} | {piece['epsilon']} "
            f"| {piece['log_users']} | {mean[OURS]:.3g} | {calm:.3f} | {best} | {first:.3f} "
            f"| {even:.3f} | {result['auto']} |"
        )
    print("\n| epsilon | cells | geometric mean / calm | geometric mean / best other |")
    print("|--:|--:|--:|--:|")
    for epsilon, ratios in sorted(by_epsilon.items()):
        calm, first = (exp(sum(log(r[i]) for r in ratios) / len(ratios)) for i in (0, 1))
        print(f"| {epsilon} | {len(ratios)} | {calm:.3f} | {first:.3f} |")
    print(
        f"\n{len(found)} cells; worse than CALM by more than 5 % beyond two standard errors in "
        f"{worse_than_calm}, than the best other by 10 % in {worse_than_best}; "
        f"auto within 1.1 of the best in {near}."
    )


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("what", choices=("run", "table"))
    parser.add_argument("--only", type=lambda s: s.split(","), help="data sets")
    parser.add_argument("--methods", type=lambda s: s.split(","), help="only these")
    parser.add_argument("--epsilon", type=lambda s: s.split(","))
    for name in ("d", "k", "n"):
        parser.add_argument(f"--{name}", type=lambda s: [int(x) for x in s.split(",")])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--targets", type=int, default=50)
    args = parser.parse_args()
    table() if args.what == "table" else run(args)


if __name__ == "__main__":
    main()
