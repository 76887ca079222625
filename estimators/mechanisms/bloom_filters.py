"""The Bloom filters of one axis: what each value sets, and how far two values are apart.

Bit ``bucket(axis · hashes + j, value, bits)`` (see :mod:`.hashing`) is set for j below ``hashes``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import comb
from typing import TYPE_CHECKING, Any

import numpy as np

from estimators.errors import PlanError
from estimators.mechanisms.hashing import buckets

if TYPE_CHECKING:
    from numpy.typing import NDArray

_VALUES = 1 << 12
"""Filters made or compared at once."""

_ROWS = 1 << 8
"""Filters that are compared with ``_VALUES`` others at once."""


@dataclass(frozen=True, slots=True)
class Facts:
    """Properties of the filters of one axis that a mechanism needs.

    Attributes:
        distance: most bits in which two of them differ.
        heaviest: most bits that one of them sets.
    """

    distance: int
    heaviest: int


def filter_rows(axis: int, values: NDArray[Any], bits: int, hashes: int) -> NDArray[np.uint8]:
    """Filters of the given values: shape (n, bits), 0 or 1. O(n · (bits + hashes))."""
    seeds = axis * hashes + np.arange(hashes)
    places = buckets(seeds[None, :], np.asarray(values)[:, None], bits)
    rows = np.zeros((len(values), bits), np.uint8)
    rows[np.arange(len(values))[:, None], places] = 1
    return rows


def comparisons(cardinality: int, bits: int) -> int:
    """Upper bound of the words of 64 bits that :func:`facts` compares in pairs."""
    return cardinality * (cardinality - 1) // 2 * -(-bits // 64)


@lru_cache(maxsize=1024)
def facts(axis: int, cardinality: int, bits: int, hashes: int) -> Facts:
    """Return the facts of an axis.

    Cost: O(cardinality · (bits + hashes)), and at most :func:`comparisons`; far fewer where two of
    the heaviest filters have no bit in common, as nearly always. Memory: the packed filters, and a
    few MB.

    Raises:
        PlanError: two values have the same filter.
    """
    if sum(comb(bits, ones) for ones in range(1, hashes + 1)) < cardinality:
        raise _same_filter()
    words = _packed(axis, cardinality, bits, hashes)
    if len(np.unique(words.view([("", words.dtype)] * words.shape[1]))) < cardinality:
        raise _same_filter()
    ones = np.bitwise_count(words).sum(axis=1, dtype=np.int64)
    order = np.argsort(-ones, kind="stable")
    return Facts(_farthest(words[order], ones[order]), int(ones.max()))


def _same_filter() -> PlanError:
    return PlanError("bloom-rr: two values have the same filter: more bits or hashes")


def _packed(axis: int, cardinality: int, bits: int, hashes: int) -> NDArray[np.uint64]:
    """Return all filters as words: shape (cardinality, words)."""
    words = np.zeros((cardinality, -(-bits // 64)), np.uint64)
    packed = words.view(np.uint8)
    for start in range(0, cardinality, _VALUES):
        values = np.arange(start, min(start + _VALUES, cardinality))
        rows = np.packbits(filter_rows(axis, values, bits, hashes), axis=1)
        packed[start : start + len(rows), : rows.shape[1]] = rows
    return words


def _farthest(words: NDArray[np.uint64], ones: NDArray[np.int64]) -> int:
    """Return the most bits in which two rows differ; rows are in descending order of ``ones``.

    Two rows differ in no more bits than they have together, so that rows with few are passed over
    once a large distance is found.
    """
    best = 0
    for start in range(0, len(words) - 1, _ROWS):
        reach = best - int(ones[start])
        end = int(np.searchsorted(-ones, -reach, side="left"))  # rows with more ones than reach
        for column in range(start, end, _VALUES):
            rows, others = words[start : start + _ROWS], words[column : min(column + _VALUES, end)]
            apart = np.zeros((len(rows), len(others)), np.uint16)
            for w in range(words.shape[1]):
                apart += np.bitwise_count(rows[:, w, None] ^ others[None, :, w])
            best = max(best, int(apart.max()))
            if best >= ones[0] + ones[1]:
                return best
    return best
