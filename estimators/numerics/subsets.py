"""Subsets of d attributes: the sums of all sizes, and the listed sets of small sizes."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from itertools import combinations


def elementary(values: Iterable[int], largest: int) -> list[int]:
    """Return the elementary symmetric polynomials of degree 0 to ``largest``.

    Entry s sums the products of all subsets of s values: of numbers of labels, the cells of all
    tables of s attributes.
    """
    sums = [1] + [0] * largest
    for value in values:
        for size in range(largest, 0, -1):
            sums[size] += sums[size - 1] * value
    return sums


@lru_cache(maxsize=32)
def sets_up_to(d: int, order: int) -> tuple[tuple[int, ...], ...]:
    """Return all sets of one to ``order`` of d attributes, by size, then in lexicographic order."""
    return tuple(s for o in range(1, order + 1) for s in combinations(range(d), o))
