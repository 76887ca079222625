"""Subsets of d attributes: the sums of all sizes, and the listed sets of small sizes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.intp]


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


@dataclass(frozen=True, slots=True, eq=False)
class AttributeSets:
    """Sets of some of d binary attributes; in a cell's index the first is the highest bit."""

    members: tuple[tuple[int, ...], ...]  # The sets, by size, then in lexicographic order
    index: Indices  # (sets,): cell of the Walsh-Hadamard transform that holds the set's moment
    order: Indices  # (sets,): sizes


@lru_cache(maxsize=32)
def sets_up_to(d: int, order: int) -> AttributeSets:
    """Return all sets of one to ``order`` of d attributes."""
    members = tuple(s for o in range(1, order + 1) for s in combinations(range(d), o))
    index = np.array([sum(1 << (d - 1 - i) for i in s) for s in members])
    return AttributeSets(members, index, np.array([len(s) for s in members]))
