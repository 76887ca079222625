"""Print the results of the grid as Markdown: means, and cells above a bound.

Ratios are of our error (`OURS`) to another. A cell breaks a bound if the ratio of mean errors
exceeds it, and the difference of paired repeats is above two standard errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import exp, log
from typing import Any

import numpy as np

from benchmarks.grid.cells import MAX_CELLS, OURS

Result = dict[str, Any]
"""The result of a cell, as `benchmarks.grid.cells.measure` returns it.

- ``cell``: the fields of the `Cell`;
- ``targets``: number of targets; ``sets_that_fit``: number of attribute sets among which they are
  drawn if some tables are too large, else None;
- ``errors``, ``product``, ``coverage``: by method, a list by repeat (see
  `benchmarks.grid.cells.Measured`);
- ``skipped``: by method, the reason why it was left out;
- ``seconds``: processor seconds.
"""

COVERAGE = (0.90, 0.99)
"""Bounds of the mean coverage of 95 % intervals. The report lists the cells outside the bounds."""

MAX_RATIO = {"calm": 1.05, "best other": 1.1, "uniform": 1.05, "product": 1.05}
"""Bounds on the ratio of our error to another one, by the name of the other in `errors_of`."""


def show(results: Sequence[Result]) -> None:
    if not results:
        print("There are no results yet.")
        return
    ordered = sorted(results, key=_place)
    repeats = {len(r["errors"][OURS]) for r in ordered}
    print(
        f"{len(ordered)} cells; {_span(repeats)} repeats, up to "
        f"{max(r['targets'] for r in ordered)} targets each.\n"
    )
    _means(ordered)
    _bounds(ordered)
    _coverage(ordered)
    _left_out(ordered)


def _place(result: Result) -> tuple[Any, ...]:
    cell = result["cell"]
    return (cell["dataset"], cell["d"], cell["k"], cell["log_users"], float(cell["epsilon"]))


def title(result: Result) -> str:
    cell = result["cell"]
    return (
        f"{cell['dataset']} d={cell['d']} k={cell['k']} epsilon={cell['epsilon']} "
        f"n=2^{cell['log_users']}"
    )


def _span(values: Iterable[float]) -> str:
    low, high = min(values), max(values)
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


def _row(*entries: object) -> None:
    print("| " + " | ".join(map(str, entries)) + " |")


def _head(title: str, *columns: str) -> None:
    print(f"\n## {title}\n")
    _row(*columns)
    print("|" + "---|" * len(columns))


def mean(result: Result, name: str) -> float:
    return float(np.mean(errors_of(result, name)))


def best_other(result: Result) -> str:
    """Return the most accurate method apart from ours; the uniform table counts as one."""
    return min((m for m in result["errors"] if m != OURS), key=lambda m: mean(result, m))


def errors_of(result: Result, name: str) -> list[float]:
    """Return errors by repeat, also of "best other" and "product"; empty if the cell has none."""
    if name == "product":
        return list(result["product"].get(OURS, []))
    return list(result["errors"][best_other(result) if name == "best other" else name])


def ratio(result: Result, other: str) -> float:
    return mean(result, OURS) / mean(result, other)


def breaks(result: Result, other: str, bound: float) -> bool:
    """Return whether our mean error is above ``bound`` times the other, by two standard errors."""
    ours, theirs = np.array(errors_of(result, OURS)), np.array(errors_of(result, other))
    gap = ours - theirs
    spread = gap.std(ddof=1) / np.sqrt(gap.size) if gap.size > 1 else np.inf
    return bool(ours.mean() > bound * theirs.mean() and gap.mean() > 2 * spread)


def geometric(values: Sequence[float]) -> float:
    return exp(sum(map(log, values)) / len(values))


def _means(results: Sequence[Result]) -> None:
    def only(name: str, *values: object) -> Callable[[Result], bool]:
        return lambda r: r["cell"][name] in values

    rows: list[tuple[str, Callable[[Result], bool]]] = [
        ("epsilon at most 0.5", lambda r: float(r["cell"]["epsilon"]) <= 0.5)
    ]
    for name in ("epsilon", "dataset", "d", "k", "log_users"):
        rows += [(f"{name} {v}", only(name, v)) for v in sorted({r["cell"][name] for r in results})]
    rows.append(("all", lambda _: True))
    _head(
        "Geometric means of ratios of errors",
        "cells with",
        "cells",
        *(f"ours / {n}" for n in MAX_RATIO),
    )
    for what, belongs in rows:
        own = [r for r in results if belongs(r)]
        if own:
            ratios = [_geometric_ratio(own, other) for other in MAX_RATIO]
            _row(what, len(own), *ratios)


def _geometric_ratio(results: Sequence[Result], other: str) -> str:
    there = [ratio(r, other) for r in results if errors_of(r, other)]
    return f"{geometric(there):.3f}" if there else ""


def _bounds(results: Sequence[Result]) -> None:
    columns = ("ours /", "bound", "cells above it", "of them significant (two standard errors)")
    _head("Cells above a bound", *columns)
    broken = []
    for other, bound in MAX_RATIO.items():
        there = [r for r in results if errors_of(r, other)]
        beyond = [r for r in there if breaks(r, other, bound)]
        _row(other, bound, sum(ratio(r, other) > bound for r in there), len(beyond))
        broken += [(r, other) for r in beyond]
    if broken:
        print()
    for result, other in broken:
        against = best_other(result) if other == "best other" else other
        print(f"- {title(result)}: {ratio(result, other):.3f} of {other} ({against})")


def _coverage(results: Sequence[Result]) -> None:
    low, high = COVERAGE
    _head(
        "Coverage of 95 % intervals, as a share of the entries of all targets",
        "method", "cells", "least", "median", "most", f"below {low:g}", f"above {high:g}",
    )  # fmt: skip
    beyond: list[tuple[Result, float]] = []
    for method in (OURS, "calm"):
        there = [r for r in results if method in r["coverage"]]
        shares = [float(np.mean(r["coverage"][method])) for r in there]
        if not shares:
            continue
        below = [s < low and _outside(r, method, low) for r, s in zip(there, shares, strict=True)]
        above = [s > high and _outside(r, method, high) for r, s in zip(there, shares, strict=True)]
        counts = (f"{min(shares):.3f}", f"{np.median(shares):.3f}", f"{max(shares):.3f}")
        _row(method, len(there), *counts, sum(below), sum(above))
        if method == OURS:
            out = zip(there, shares, below, above, strict=True)
            beyond = [(r, s) for r, s, under, over in out if under or over]
    if beyond:
        print(f"\n{OURS}, cells outside by more than two standard errors over the repeats:\n")
    for result, share in beyond:
        print(f"- {title(result)}: {share:.3f}")


def _outside(result: Result, method: str, limit: float) -> bool:
    shares = np.array(result["coverage"][method])
    spread = shares.std(ddof=1) / np.sqrt(shares.size) if shares.size > 1 else np.inf
    return bool(abs(shares.mean() - limit) > 2 * spread)


def _left_out(results: Sequence[Result]) -> None:
    _head(
        "Methods left out",
        "method",
        "measured in",
        "too noisy in",
        "refuse in",
    )
    every = {m for r in results for m in (*r["errors"], *r["skipped"])} - {OURS, "uniform"}
    for method in sorted(every):
        reasons = [r["skipped"][method] for r in results if method in r["skipped"]]
        refusals = [reason for reason in reasons if reason.startswith("refuses")]
        measured = sum(method in r["errors"] for r in results)
        _row(method, measured, len(reasons) - len(refusals), len(refusals))
    some = [r for r in results if r["sets_that_fit"] is not None]
    restricted = {
        (r["cell"]["dataset"], r["cell"]["d"], r["cell"]["k"]): r["sets_that_fit"] for r in some
    }
    if restricted:
        print(
            f"\nIn these cells some tables have more than {MAX_CELLS:,} entries and are left out:\n"
        )
    for (dataset, d, k), fit in sorted(restricted.items()):
        print(f"- {dataset} d={d} k={k}: the targets are drawn from the other {fit} attribute sets")
