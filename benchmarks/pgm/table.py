"""Print the comparison with Private-PGM as Markdown: ratios to the better solver."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import exp, log
from statistics import fmean
from typing import Any

SOLVERS = ("mirror descent", "L-BFGS")
SIZES = ("2", "3", "6")
WORSE = 1.05  # points above this ratio by more than two standard errors are listed
Result = dict[str, Any]
"""One point of the results: the part, the point, and rows of errors and seconds by solver."""


def show(results: Sequence[Result]) -> None:
    ratios: list[tuple[Result, str, float]] = []
    for result in sorted(results, key=_order):
        for k in SIZES:
            mean = {who: _mean_error(rows, k) for who, rows in result["rows"].items()}
            better = min(SOLVERS, key=mean.__getitem__)
            ratio = mean["ours"] / mean[better]
            ratios.append((result["point"], k, ratio))
            if ratio > WORSE + 2 * (spread := _spread(result["rows"], better, k)):
                p = result["point"]
                place = f"{p['dataset']}, d = {p['d']}, epsilon {p['epsilon']}, 2^{p['log_users']}"
                print(f"- {place}, k = {k}: {ratio:.2f} ± {spread:.2f} times the better solver")
    print("\nGeometric means of SSE(noise-aware) / SSE(the better of the two):\n")
    _head(["", "epsilon at most 0.5", "epsilon 1 and 2"], left=1)
    groups = [("all", lambda p, k: True)]  # noqa: ARG005
    groups += [("without adult3, census3", lambda p, _: not p["dataset"].endswith("3"))]
    groups += [(f"k = {k}", lambda _, own, k=k: own == k) for k in SIZES]
    for d in sorted({r["point"]["d"] for r in results}):
        groups.append((f"d = {d}", lambda p, _, d=d: p["d"] == d))
    for name in sorted({r["point"]["dataset"] for r in results}):
        groups.append((name, lambda p, _, name=name: p["dataset"] == name))
    for epsilon in sorted({r["point"]["epsilon"] for r in results}, key=float):
        groups.append((f"epsilon {epsilon}", lambda p, _, e=epsilon: p["epsilon"] == e))
    for label, within in groups:
        chosen = [(p, ratio) for p, k, ratio in ratios if within(p, k)]
        low = _geometric(ratio for p, ratio in chosen if float(p["epsilon"]) <= 0.5)
        high = _geometric(ratio for p, ratio in chosen if float(p["epsilon"]) > 0.5)
        print(f"| {label} | {low} | {high} |")


def _head(columns: Sequence[str], left: int) -> None:
    print("| " + " | ".join(columns) + " |")
    print("|" + "---|" * left + "--:|" * (len(columns) - left))


def _order(result: Result) -> tuple[Any, ...]:
    p = result["point"]
    return p["d"], p["dataset"], p["log_users"], float(p["epsilon"])


def _mean_error(rows: Sequence[Result], k: str) -> float:
    return fmean(r["errors"][k] for r in rows)


def _spread(rows: dict[str, list[Result]], other: str, k: str) -> float:
    """Return the standard error of the ratio of two mean errors, of paired repeats."""
    pairs = [
        (a["errors"][k], b["errors"][k]) for a, b in zip(rows["ours"], rows[other], strict=True)
    ]
    n = len(pairs)
    if n < 2:
        return 0.0
    below = fmean(b for _, b in pairs)
    ratio = fmean(a for a, _ in pairs) / below
    gaps = [(a - ratio * b) / below for a, b in pairs]
    return (sum(g * g for g in gaps) / (n - 1) / n) ** 0.5


def _geometric(ratios: Iterable[float]) -> str:
    logs = [log(r) for r in ratios]
    return f"{exp(fmean(logs)):.3f} ({len(logs)})" if logs else ""
