"""Expected errors of a design, averaged over a sample of the marginals that it answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from estimators.numerics.subsets import even_sample

if TYPE_CHECKING:
    from collections.abc import Callable

    from estimators.domain import Attributes, Domain

SAMPLED = 24
"""Most marginals of one size that are looked at, unless the method asks for more."""

MAX_SIZE = 4
"""Largest marginals that are looked at, unless the method sets another limit."""

MAX_MARGINAL_CELLS = 1 << 12
"""Larger marginals are left out, unless the method sets another limit."""


def mean_error(
    domain: Domain,
    k: int,
    error: Callable[[Attributes], float],
    *,
    sampled: int = SAMPLED,
    max_size: int = MAX_SIZE,
    max_cells: int = MAX_MARGINAL_CELLS,
) -> dict[int, float]:
    """Return the mean of ``error`` by marginal size, from 1 to k, over an even sample.

    Args:
        domain: of the marginals.
        k: largest size.
        error: expected sum of squared errors of one marginal.
        sampled: most marginals of one size.
        max_size: larger sizes are left out.
        max_cells: larger marginals are left out, and sizes without any other.
    """
    expected = {}
    for size in range(1, min(k, max_size) + 1):
        chosen = even_sample(len(domain), size, sampled)
        errors = [error(a) for a in chosen if domain.size(a) <= max_cells]
        if errors:
            expected[size] = sum(errors) / len(errors)
    return expected


def by_cardinalities(
    domain: Domain, error: Callable[[Attributes], float]
) -> Callable[[Attributes], float]:
    """Return the same error function, computed once for each combination of cardinalities.

    For designs that treat attributes of one cardinality alike.
    """
    known: dict[tuple[int, ...], float] = {}

    def asked(attributes: Attributes) -> float:
        shape = tuple(sorted(domain.shape(attributes)))
        if shape not in known:
            known[shape] = error(attributes)
        return known[shape]

    return asked
