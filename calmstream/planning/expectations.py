"""The expected errors of a design, and a warning if they exceed those of the uniform table.

``calmstream plan`` prints both. A plan whose tables have larger errors than the uniform table,
which needs no reports, is of no use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from rich.table import Table as Grid

from calmstream.estimators.methods.notes import EXACT, PRODUCT
from calmstream.estimators.numerics.expected_error import MAX_MARGINAL_CELLS, SAMPLED
from calmstream.estimators.numerics.subsets import even_sample
from calmstream.planning.methods_page import note_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from calmstream.estimators.domain import Attributes, Domain
    from calmstream.estimators.methods.base import Design
    from calmstream.estimators.plan import Plan
    from calmstream.tables.records import RecordTable

NOISE_SHARE = 1 / 8
"""A published table always gets the flag ``noise`` if its expected squared error is larger than
this share of the maximum error of the uniform table (`is_noise`)."""

MAX_SQUARED_DISTANCE = 2.0
"""Maximum squared distance of two distributions; it is reached if they have no common cell."""

MAX_ROWS = 1 << 16
"""Maximum number of records from which the error of the uniform table is computed."""

_UNIFORM_IS_BETTER = "The uniform table is better."
_CORRECTED = (
    "Published tables are corrected, so their errors are smaller. calmstream evaluate measures, on "
    "data like yours, whether they are smaller than that of the uniform table."
)
_TOO_NOISY = (
    "No two distributions differ by more than 2, so even corrected tables will be nearly useless."
)
_REMEDY = (
    "More users, a larger epsilon or fewer attributes lower it; calmstream plan --method list "
    "shows other methods."
)


def errors(plan: Plan, design: Design) -> Grid:
    """Return a table of the expected errors, one row per size of marginal."""
    grid = Grid("marginals of", "published", "expected squared error")
    sizes = {len(marginal) for marginal in plan.marginals}
    for size in sorted(design.expected_sse.keys() | sizes):
        published = sum(len(marginal) == size for marginal in plan.marginals)
        expected = design.expected_sse.get(size)
        grid.add_row(
            _attributes(size), str(published), "" if expected is None else f"{expected:.2g}"
        )
    return grid


def meaning(plan: Plan) -> str:
    """Return one line that explains which errors the expected errors include."""
    return f"{note_of(plan.method).expected} calmstream evaluate measures the error."


def warning(plan: Plan, design: Design, data: RecordTable | None) -> str:
    """Return one line if an expected error is above that of the uniform table, else "".

    Without data the error of the uniform table is unknown. Then the limit is the error above which
    published tables get the flag ``noise``.
    """
    sizes = design.expected_sse
    limits = _noise_limits(plan.domain, sizes) if data is None else uniform_errors(data, sizes)
    above = [size for size in sorted(sizes) if size in limits and sizes[size] > limits[size]]
    if not above:
        return ""
    listed = "; ".join(f"{_attributes(s)}: {sizes[s]:.2g} against {limits[s]:.2g}" for s in above)
    if data is None:
        limit = "an eighth of the uniform table's maximum error: tables will be flagged noise"
    else:
        limit = "the error of the uniform table on these records"
    too_large = max(sizes[size] for size in above) > MAX_SQUARED_DISTANCE
    verdict = _TOO_NOISY if too_large else _CORRECTED
    # The errors of these methods are not corrected, or not bounds.
    if note_of(plan.method).expected in (EXACT, PRODUCT):
        verdict = _UNIFORM_IS_BETTER
    return f"The expected error exceeds {limit}; {listed}. {verdict} {_REMEDY}"


def uniform_errors(data: RecordTable, sizes: Iterable[int]) -> dict[int, float]:
    """Return the mean squared error of the uniform table by size of marginal.

    The mean is over an evenly spaced sample of marginals. It is computed from at most 65,536
    records, evenly spaced in the table.
    """
    codes = data.codes[:: -(-len(data.codes) // MAX_ROWS)]

    def error(attributes: Attributes) -> float:
        shares = data.domain.histogram(codes, attributes) / len(codes)
        return float(np.square(shares - 1.0 / shares.size).sum())

    return {
        size: float(np.mean([error(attributes) for attributes in sample]))
        for size in sizes
        if (sample := list(_sample(data.domain, size)))
    }


def _noise_limits(domain: Domain, sizes: Mapping[int, float]) -> dict[int, float]:
    """Return the squared error above which tables get the flag ``noise``, by size of marginal."""
    return {
        size: NOISE_SHARE * float(np.mean([1.0 - 1.0 / domain.size(a) for a in sample]))
        for size in sizes
        if (sample := list(_sample(domain, size)))
    }


def _sample(domain: Domain, size: int) -> Iterator[Attributes]:
    """Yield the marginals over which designs average their expected errors."""
    sample = even_sample(len(domain), size, SAMPLED)
    return (a for a in sample if domain.size(a) <= MAX_MARGINAL_CELLS)


def _attributes(size: int) -> str:
    """Return "1 attribute", "2 attributes" and so on."""
    return f"{size} attribute{'s' * (size > 1)}"
