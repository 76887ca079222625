"""The expected errors of a design, and a warning where they exceed those of the uniform table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from rich.table import Table as Grid

from calmstream.planning.methods_page import EXACT, PRODUCT, note
from estimators.analysis.leverage import FORGED_SHARE, leverages
from estimators.numerics.expected_error import MAX_MARGINAL_CELLS, SAMPLED
from estimators.numerics.subsets import even_sample

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from calmstream.tables import Table
    from estimators.domain import Attributes, Domain
    from estimators.methods.base import Design
    from estimators.plan import Plan

NOISE_SHARE = 1 / 8
"""Share of the largest possible error of the uniform table above which noise is always flagged,
see :func:`estimators.marginal.is_noise`."""

MOST = 2.0
"""Largest squared distance of two distributions: they have no common cell."""

MAX_ROWS = 1 << 16
"""Most records from which the error of the uniform table is computed."""

_HOPELESS = "Knowing nothing is better."
_CORRECTED = (
    "What is published errs less than that; whether less than the uniform table, calmstream "
    "evaluate measures on data like yours."
)
_DROWNED = (
    "Above 2, the most by which two tables can differ, hardly anything is left to learn, corrected "
    "or not."
)
_REMEDY = (
    "More users, a larger epsilon or fewer attributes lower it; calmstream plan --methods lists "
    "other methods."
)


def errors(plan: Plan, design: Design) -> Grid:
    """Return a table of the expected errors by size of marginal."""
    moved = reach_by_size(plan)
    grid = Grid(
        "marginals of",
        "published",
        "expected squared error",
        f"a cell moves with {100 * FORGED_SHARE:g} % forged",
    )
    for size in sorted(design.expected_sse.keys() | moved.keys()):
        published = sum(len(marginal) == size for marginal in plan.marginals)
        expected = design.expected_sse.get(size)
        grid.add_row(
            _of(size),
            str(published),
            "" if expected is None else f"{expected:.2g}",
            f"up to {moved[size]:.2g}" if size in moved else "",
        )
    return grid


def reach_by_size(plan: Plan) -> dict[int, float]:
    """Return, by size of published marginal, how far forged reports can move a cell."""
    found: dict[int, float] = {}
    for marginal, one in zip(plan.marginals, leverages(plan), strict=True):
        found[len(marginal)] = max(found.get(len(marginal), 0.0), one.reach)
    return found


def meaning(plan: Plan) -> str:
    """Return what the expected errors bound, and what they leave out."""
    return f"{note(plan.method).expected} calmstream evaluate measures it."


def warning(plan: Plan, design: Design, data: Table | None) -> str:
    """Return one line if an expected error is above that of the uniform table, else "".

    Without data the error of the uniform table is unknown; then the bound above which published
    tables are flagged as noise takes its place.

    Args:
        plan: the plan.
        design: states the expected errors.
        data: the table that the domain was learnt from, if it was.
    """
    sizes = design.expected_sse
    least = _bounds(plan.domain, sizes) if data is None else uniform_errors(data, sizes)
    above = [size for size in sorted(sizes) if size in least and sizes[size] > least[size]]
    if not above:
        return ""
    listed = "; ".join(f"{_of(s)}: {sizes[s]:.2g} against {least[s]:.2g}" for s in above)
    if data is None:
        what = "an eighth of the most that the uniform table can miss: tables will be flagged noise"
    else:
        what = "what the uniform table misses on these records"
    verdict = _CORRECTED if max(sizes[size] for size in above) <= MOST else _DROWNED
    if note(plan.method).expected in (EXACT, PRODUCT):
        verdict = _HOPELESS
    return f"The expected error exceeds {what}; {listed}. {verdict} {_REMEDY}"


def uniform_errors(data: Table, sizes: Iterable[int]) -> dict[int, float]:
    """Return the mean squared error of the uniform table by size of marginal.

    Over an even sample of marginals, from at most 65,536 records evenly spaced in the table.
    """
    codes = data.codes[:: -(-len(data.codes) // MAX_ROWS)]

    def error(attributes: Attributes) -> float:
        shares = data.domain.histogram(codes, attributes) / len(codes)
        return float(np.square(shares - 1.0 / shares.size).sum())

    return {
        size: float(np.mean([error(attributes) for attributes in chosen]))
        for size in sizes
        if (chosen := list(_sample(data.domain, size)))
    }


def _bounds(domain: Domain, sizes: Mapping[int, float]) -> dict[int, float]:
    return {
        size: NOISE_SHARE * float(np.mean([1.0 - 1.0 / domain.size(a) for a in chosen]))
        for size in sizes
        if (chosen := list(_sample(domain, size)))
    }


def _sample(domain: Domain, size: int) -> Iterator[Attributes]:
    """Yield the marginals over which designs average their expected errors."""
    every = even_sample(len(domain), size, SAMPLED)
    return (a for a in every if domain.size(a) <= MAX_MARGINAL_CELLS)


def _of(size: int) -> str:
    return f"{size} attribute{'s' * (size > 1)}"
