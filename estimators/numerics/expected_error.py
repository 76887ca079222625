"""Expected errors of a design, averaged over a sample of the marginals that it answers."""

from __future__ import annotations

from collections.abc import Callable

from calmstream.estimators.domain import Attributes, Domain
from calmstream.estimators.numerics.subsets import even_sample

SAMPLED = 24
"""Default of the maximum number of marginals of one size over which the mean is taken."""

MAX_SIZE = 4
"""Default of the maximum number of attributes of a marginal, because larger ones cost much time."""

MAX_MARGINAL_CELLS = 1 << 12
"""Default of the maximum number of cells of a marginal, for the same reason."""


def mean_error(
    domain: Domain,
    k: int,
    error: Callable[[Attributes], float],
    *,
    sampled: int = SAMPLED,
    max_size: int = MAX_SIZE,
    max_cells: int = MAX_MARGINAL_CELLS,
) -> dict[int, float]:
    """Return the mean of ``error`` by marginal size, from 1 to k, over an even sample."""
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
    """Return the same function, computed once for each combination of numbers of values.

    It is for designs that treat attributes with the same number of values in the same way.
    """
    cache: dict[tuple[int, ...], float] = {}

    def cached_error(attributes: Attributes) -> float:
        shape = tuple(sorted(domain.shape(attributes)))
        if shape not in cache:
            cache[shape] = error(attributes)
        return cache[shape]

    return cached_error
