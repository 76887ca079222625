"""The results as a page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.changes import shifts
from benchmarks.changes.cells import LEVELS

Results = Mapping[str, Mapping[str, Any]]

_ABOUT = (
    "Devices are drawn from data sets, epsilon 1; tallies are drawn from their exact distribution. "
    "`adult` is a view of 144 cells or a plan, `adult-42` a view of 42 cells; views of `taxi` and "
    "`kosarak` have 4. `make changes` measures what is missing, `make changes ARGS=table` writes "
    "this page."
)


def page(results: Results) -> str:
    parts = [
        "# Tests of change",
        _ABOUT,
        *_pooled(results),
        *_alarms(results),
        *_power(results),
        *_kinds(results),
    ]
    return "\n\n".join(parts) + "\n"


def _chosen(results: Results, kind: str) -> dict[tuple[str, ...], Mapping[str, Any]]:
    found = {tuple(name.split("/")[1:]): r for name, r in results.items() if name.startswith(kind)}
    return dict(sorted(found.items()))


def _pooled(results: Results) -> list[str]:
    """Return shares of p-values below levels; above: 1.2 times a level by two standard errors."""
    cells: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for kind in ("size-mechanism", "size-plan", "alarms"):
        for (_, name, *_), r in _chosen(results, f"{kind}/").items():
            what = "plan, all tables" if kind == "alarms" else kind.removeprefix("size-")
            cells.setdefault((what, name), []).append(r)
    head = ["of", "", "windows", "tests", *(f"p < {level:g}" for level in LEVELS)]
    head += ["above 1.2 × stated"]
    rows = []
    for names, found in cells.items():
        tests = sum(r["tests"] for r in found)
        shares, above = [], []
        for level in LEVELS:
            low = sum(r["shares"][str(level)] * r["tests"] for r in found) / tests
            squares = sum((r["errors"][str(level)] * r["tests"]) ** 2 for r in found)
            error = max(squares**0.5 / tests, (level / tests) ** 0.5)
            shares.append(f"{100 * low:.3g} % ± {100 * error:.1g}")
            above += [f"{level:g}"] if low - 2 * error > 1.2 * level else []
        windows = sum(r["windows"] for r in found)
        rows.append([*names, f"{windows:,}", f"{tests:,}", *shares, ", ".join(above) or "no"])
    about = (
        "Null windows, all measurements in `changes.jsonl`: share of p-values below a level, with "
        "its standard error over windows."
    )
    return ["## Size, all measurements together", about, _grid(head, rows)] if rows else []


def _alarms(results: Results) -> list[str]:
    chosen = _chosen(results, "alarms/")
    if not chosen:
        return []
    head = ["data", "plan", "reports", "against", "windows", "tables", "not tested"]
    head += ["windows with a table called changed", "alarms in 1,000 windows"]
    rows = []
    for names, r in chosen.items():
        n = r["windows"]
        share = r["alarms"] / n
        error = 1000 * max((share / n) ** 0.5, 1 / n)
        rows.append(
            [
                *names, f"{n:,}", str((r["tests"] + r["untested"]) // n), str(r["untested"]),
                _percent(r["findings"], n), f"{1000 * share:.2g} ± {error:.1g}",
            ]
        )  # fmt: skip
    about = (
        "All tables of one and two attributes of a plan, null windows, one family of tests. A "
        "table is called changed if its adjusted p-value is below 0.05, and an alarm is a smallest "
        "adjusted p-value below 0.001: at most 5 % of the windows and 1 window in 1,000 are stated."
    )
    return ["## False alarms", about, _grid(head, rows)]


def _power(results: Results) -> list[str]:
    chosen = _chosen(results, "power")
    if not chosen:
        return []
    head = ["data", "plan", "shift", "size", "predicted", "simulated"]
    rows = [
        [*names, f"{r['shift']:.3g}", f"{r['predicted']:.2f}", f"{r['simulated']:.2f}"]
        for names, r in chosen.items()
    ]
    about = f"Tests at 5 %, {shifts.REPORTS:,} reports per window, {shifts.WINDOWS} windows."
    return ["## Power", about, _grid(head, rows)]


def _kinds(results: Results) -> list[str]:
    chosen = _chosen(results, "kind")
    if not chosen:
        return []
    head = ["data", "plan", "shift of", "size", "predicted power", "windows", "found"]
    head += ["of them called dependence", "dependence, of all windows"]
    rows = [
        [
            *names, f"{r['shift']:.3g}", f"{r['predicted']:.2f}", str(r["windows"]),
            str(r["changed"]),
            _share(r["dependence"], r["changed"]), _share(r["rejected"], r["windows"]),
        ]
        for names, r in chosen.items()
    ]  # fmt: skip
    about = (
        "An independent pair whose margins or whose dependence shift, at a predicted power of "
        "0.95 or the most that the table has room for. Both tests are at 5 %."
    )
    return ["## Margins or dependence", about, _grid(head, rows)]


def _share(part: int, whole: int) -> str:
    return f"{part} ({_percent(part, whole)})"


def _percent(part: int, whole: int) -> str:
    share = part / max(whole, 1)
    error = (share * (1.0 - share) / max(whole, 1)) ** 0.5
    return f"{100 * share:.3g} % ± {100 * error:.1g}"


def _grid(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
