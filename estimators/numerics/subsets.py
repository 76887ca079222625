"""Counting and sampling the subsets of d attributes without listing all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations, islice
from math import comb


def elementary(values: Iterable[int], largest: int) -> list[int]:
    """Return the elementary symmetric polynomials of degree 0 to ``largest``.

    Entry s is the sum, over all subsets of s values, of the product of their values: the number of
    cells of all tables of s attributes if the values are cardinalities. Cost O(values · largest).
    """
    sums = [1] + [0] * largest
    for value in values:
        for size in range(largest, 0, -1):
            sums[size] += sums[size - 1] * value
    return sums


def even_sample(d: int, size: int, most: int) -> Iterator[tuple[int, ...]]:
    """Return at most ``most`` subsets of ``size`` of d positions, evenly spaced in their order.

    Args:
        d: number of positions.
        size: of every subset, at most d.
        most: at least 1; all subsets are returned if there are no more than that.
    """
    step = -(-comb(d, size) // most)
    return islice(combinations(range(d), size), 0, None, step)
