"""Print the results on strangers' data as Markdown: errors beside other methods', and coverage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import sqrt

import numpy as np

from benchmarks.grid.cells import NOT_ASKED, OURS
from benchmarks.grid.table import COVERAGE, MAX_RATIO, Result, geometric, title

WORST = MAX_RATIO["calm"]  # bound of the ratio to any other method


def ratio(result: Result, other: str = "calm") -> tuple[float, float]:
    """Return a cell's ratio, and the standard error of what our error is above `WORST` times it."""
    ours, theirs = (np.array(result["errors"][name]) for name in (OURS, other))
    above = ours - WORST * theirs
    spread = float(np.std(above, ddof=1)) / sqrt(len(ours)) if len(ours) > 1 else 0.0
    return float(ours.mean() / theirs.mean()), spread / float(theirs.mean())


def show(results: Sequence[Result]) -> None:
    if not results:
        print("There are no results yet.")
        return
    repeats = sorted({len(r["errors"][OURS]) for r in results})
    print(f"{len(results)} cells; repeats: {', '.join(map(str, repeats))}.\n")
    _by(results, "data set", lambda r: r["cell"]["dataset"])
    _by(results, "epsilon", lambda r: r["cell"]["epsilon"])
    _by(results, "d", lambda r: f"{r['cell']['d']:2d}")
    _by(results, "k", lambda r: str(r["cell"]["k"]))
    _by(results, "devices", lambda r: f"2^{r['cell']['log_users']}")
    _outside(results)
    _better(results)


def _by(results: Sequence[Result], heading: str, key: Callable[[Result], str]) -> None:
    print(f"| {heading} | cells | error over CALM's, geometric mean | largest | coverage | least |")
    print("|---|---|---|---|---|---|")
    for value in sorted({key(r) for r in results}):
        some = [r for r in results if key(r) == value]
        ratios = [ratio(r)[0] for r in some]
        covered = [float(np.mean(r["coverage"][OURS])) for r in some]
        print(
            f"| {value} | {len(some)} | {geometric(ratios):.3f} | {max(ratios):.2f} "
            f"| {np.mean(covered):.3f} | {min(covered):.3f} |"
        )
    print()


def _outside(results: Sequence[Result]) -> None:
    print(f"Cells above {WORST:g} of CALM's error by more than two standard errors, or with a")
    print(f"coverage outside {COVERAGE[0]:g} to {COVERAGE[1]:g}:\n")
    print("| cell | error over CALM's | coverage |\n|---|---|---|")
    for result in results:
        value, spread = ratio(result)
        covered = np.array(result["coverage"][OURS])
        slack = 2 * float(np.std(covered, ddof=1)) / sqrt(len(covered)) if len(covered) > 1 else 0.0
        low, high = covered.mean() + slack < COVERAGE[0], covered.mean() - slack > COVERAGE[1]
        if value - WORST > 2 * spread or low or high:
            print(f"| {title(result)} | {value:.3f} | {covered.mean():.3f} |")


def _better(results: Sequence[Result]) -> None:
    """List the better methods of each cell in which all methods were measured, if there is one."""
    if not any(set(r["errors"]) - {OURS, "calm", "uniform"} for r in results):
        return
    some = [r for r in results if NOT_ASKED not in r["skipped"].values()]
    print(f"\nAll methods were measured in {len(some)} cells, but those that refuse a cell or are")
    print(f"predicted to be far worse than the best. {OURS} has above {WORST:g} times the error of")
    print("these, by more than two standard errors:\n")
    print("| cell | better method | error over its |\n|---|---|---|")
    for result in some:
        for other in sorted(set(result["errors"]) - {OURS}):
            value, spread = ratio(result, other)
            if value - WORST > 2 * spread:
                print(f"| {title(result)} | {other} | {value:.3f} |")
