"""The Bloom filters of the values of one attribute (axis), and the distance between them.

The filter of a value has bit ``bucket(axis · hashes + j, value, bits)`` of :mod:`.hashing` set for
every j below ``hashes``.
"""

from __future__ import annotations

from functools import lru_cache
from math import comb
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calmstream.common.errors import PlanError
from calmstream.estimators.mechanisms.hashing import buckets

_VALUES = 1 << 12  # filters that are made at once, or compared with others; it limits the memory
_ROWS = 1 << 8  # filters that are compared with ``_VALUES`` others at once


class Facts(NamedTuple):
    """The largest distance of two filters of an axis, and the most ones of any."""

    distance: int
    heaviest: int


def filter_rows(axis: int, values: NDArray[Any], bits: int, hashes: int) -> NDArray[np.uint8]:
    """Return the filters of the given values: shape (n, bits), 0 or 1."""
    seeds = axis * hashes + np.arange(hashes)
    positions = buckets(seeds[None, :], np.asarray(values)[:, None], bits)
    rows = np.zeros((len(values), bits), np.uint8)
    rows[np.arange(len(values))[:, None], positions] = 1
    return rows


def comparisons(cardinality: int, bits: int) -> int:
    """Return an upper bound of the pairs of 64-bit words that :func:`facts` compares."""
    return cardinality * (cardinality - 1) // 2 * -(-bits // 64)


@lru_cache(maxsize=1024)
def facts(axis: int, cardinality: int, bits: int, hashes: int) -> Facts:
    """Return the properties of an axis's filters, by at most `comparisons`, usually far fewer."""
    same = PlanError("bloom-rr: two values have the same filter: use more bits or hashes")
    if sum(comb(bits, ones) for ones in range(1, hashes + 1)) < cardinality:
        raise same
    words = _packed(axis, cardinality, bits, hashes)
    if len(np.unique(words.view([("", words.dtype)] * words.shape[1]))) < cardinality:
        raise same
    ones = np.bitwise_count(words).sum(axis=1, dtype=np.int64)
    order = np.argsort(-ones, kind="stable")
    return Facts(_farthest(words[order], ones[order]), int(ones.max()))


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
    """Return the maximum number of bits in which two rows (rows, words) differ.

    Two rows differ in at most as many bits as they have ones together: once a large distance is
    found, rows with few ones need no comparison.
    """
    best = 0
    for start in range(0, len(words) - 1, _ROWS):
        reach = best - int(ones[start])
        end = int(np.searchsorted(-ones, -reach, side="left"))  # rows with more ones than reach
        for column in range(start, end, _VALUES):
            rows, others = words[start : start + _ROWS], words[column : min(column + _VALUES, end)]
            distances = np.zeros((len(rows), len(others)), np.uint16)
            for w in range(words.shape[1]):
                distances += np.bitwise_count(rows[:, w, None] ^ others[None, :, w])
            best = max(best, int(distances.max()))
            if best >= ones[0] + ones[1]:
                return best
    return best
