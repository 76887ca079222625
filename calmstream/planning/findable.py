"""The smallest changes that tests of a plan's finals find, for the printed plan."""

from __future__ import annotations

from statistics import median

from calmstream.estimators.changes.compare import ALPHA, MAX_CELLS
from calmstream.estimators.changes.power import POWER, planned_views, smallest_shift
from calmstream.estimators.plan import Plan

_TABLES = 9
"""Maximum number of tables of a size that are computed; they are spread over all of them."""


def smallest_changes(plan: Plan) -> dict[int, list[float]]:
    """Return by number of attributes the smallest shifts of one cell that are found, ascending.

    They are found between two full windows with probability `POWER`, at the level of the alert
    divided by the number of published tables. Sizes whose tables are not tested are left out.
    """
    views = planned_views(plan, plan.users)
    level = ALPHA / len(plan.marginals)
    by_size: dict[int, list[float]] = {}
    for size in sorted({len(marginal) for marginal in plan.marginals}):
        tables = [m for m in plan.marginals if len(m) == size and plan.domain.size(m) <= MAX_CELLS]
        for target in tables[:: max(1, -(-len(tables) // _TABLES))]:
            found = smallest_shift((views, views), plan.domain, target, level)
            if found is not None:
                by_size.setdefault(size, []).append(found.cell)
    return {size: sorted(shifts) for size, shifts in by_size.items()}


def line(plan: Plan) -> str | None:
    """Return one line about what calmstream changes finds; None where nothing is tested."""
    found = smallest_changes(plan)
    if not found:
        return None
    parts = ", ".join(
        f"{_range(shifts)} in a table of {size} attribute{'s' if size > 1 else ''}"
        for size, shifts in found.items()
    )
    large = sum(plan.domain.size(marginal) > MAX_CELLS for marginal in plan.marginals)
    untested = f"; tables of more than {MAX_CELLS:,} cells are not tested: {large}" if large else ""
    return (
        f"calmstream changes finds between two full windows, with probability {POWER:g} at the "
        f"alert's level, a shift of one cell of {parts} (median and range of at most {_TABLES} "
        f"tables of a size; uniform tables, the other cells give way in proportion){untested}"
    )


def short(plan: Plan) -> str | None:
    """Return the same in few words, of tables of one and of two attributes."""
    found = {size: median(shifts) for size, shifts in smallest_changes(plan).items() if size <= 2}
    words = {1: "one attribute", 2: "a pair"}
    parts = ", ".join(f"{_points(shift)} in {words[size]}" for size, shift in found.items())
    return f"a change is found from so many points: {parts}" if found else None


def _range(shifts: list[float]) -> str:
    low, middle, high = (_points(s) for s in (shifts[0], median(shifts), shifts[-1]))
    return f"{middle} points" if low == high else f"{middle} ({low} to {high}) points"


def _points(shift: float) -> str:
    return "more than 100" if shift >= 1.0 else f"{100 * shift:.2g}"
