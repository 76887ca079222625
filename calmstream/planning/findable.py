"""The smallest changes that tests of a plan's finals find, for the printed plan."""

from __future__ import annotations

from statistics import median

from calmstream.estimators.changes.compare import ALPHA, MAX_CELLS
from calmstream.estimators.changes.power import planned_views, smallest_shift
from calmstream.estimators.plan import Plan

_TABLES = 9
"""Maximum number of tables of a size that are computed; they are spread over all of them."""


def smallest_changes(plan: Plan) -> dict[int, list[float]]:
    """Return by number of attributes, one or two, the smallest shifts of one cell that are found.

    They are found between two full windows with probability `power.POWER`, at the level of the
    alert divided by the number of published tables.
    """
    views = planned_views(plan, plan.users)
    level = ALPHA / len(plan.marginals)
    by_size: dict[int, list[float]] = {}
    for size in (1, 2):
        tables = [m for m in plan.marginals if len(m) == size and plan.domain.size(m) <= MAX_CELLS]
        for target in tables[:: max(1, -(-len(tables) // _TABLES))]:
            found = smallest_shift((views, views), plan.domain, target, level)
            if found is not None:
                by_size.setdefault(size, []).append(found.cell)
    return by_size


def line(plan: Plan) -> str | None:
    """Return one line about what calmstream changes finds; None where nothing is tested."""
    words = {1: "one attribute", 2: "a pair"}
    parts = ", ".join(
        f"{_points(median(shifts))} in {words[size]}"
        for size, shifts in smallest_changes(plan).items()
    )
    return f"a change is found from so many points: {parts}" if parts else None


def _points(shift: float) -> str:
    return "more than 100" if shift >= 1.0 else f"{100 * shift:.2g}"
