"""Counting and sampling the subsets of d attributes without listing all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations, islice
from math import comb


def elementary(values: Iterable[int], largest: int) -> list[int]:
    """Return the elementary symmetric polynomials of degree 0 to ``largest``.

    Entry s is the sum, over all subsets of s values, of the product of the subset. If the values
    are numbers of labels of attributes, that is the number of cells of all tables of s attributes.

    Args:
        values: the values.
        largest: the largest degree.

    Cost: O(values · largest).
    """
    sums = [1] + [0] * largest
    for value in values:
        for size in range(largest, 0, -1):
            sums[size] += sums[size - 1] * value
    return sums


def even_sample(d: int, size: int, limit: int) -> Iterator[tuple[int, ...]]:
    """Return at most ``limit`` subsets of d positions, evenly spaced in lexicographic order.

    Args:
        d: number of positions.
        size: number of positions of every subset, at most d.
        limit: maximum number of subsets, at least 1; if there are fewer, all are returned.
    """
    step = -(-comb(d, size) // limit)
    return islice(combinations(range(d), size), 0, None, step)
