"""Expected errors of a design that treats all attributes alike, averaged over its marginals."""

from __future__ import annotations

from itertools import combinations, islice
from math import comb
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from estimators.domain import Attributes, Domain

SAMPLED = 24
"""Most marginals of one size that are looked at."""

MAX_SIZE = 4
"""Largest marginals that are looked at."""

MAX_MARGINAL_CELLS = 1 << 12


def mean_error(domain: Domain, k: int, error: Callable[[Attributes], float]) -> dict[int, float]:
    """Mean of ``error`` by marginal size, from 1 to k but not above 4, over an even sample.

    Args:
        domain: of the marginals.
        k: largest size.
        error: expected sum of squared errors of one marginal; it may depend on the marginal's
            cardinalities only, and is asked once for each combination of them.
    """
    known: dict[tuple[int, ...], float] = {}

    def asked(attributes: Attributes) -> float:
        shape = tuple(sorted(domain.shape(attributes)))
        if shape not in known:
            known[shape] = error(attributes)
        return known[shape]

    expected = {}
    for size in range(1, min(k, MAX_SIZE) + 1):
        step = -(-comb(len(domain), size) // SAMPLED)
        sampled = islice(combinations(range(len(domain)), size), 0, None, step)
        errors = [asked(a) for a in sampled if domain.size(a) <= MAX_MARGINAL_CELLS]
        if errors:
            expected[size] = sum(errors) / len(errors)
    return expected
