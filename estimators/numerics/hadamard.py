"""The Walsh-Hadamard transform.

Its matrix has the entries chi_a(x) = (-1)^parity(a & x): -1 if the binary numbers a and x have an
odd number of common ones, otherwise +1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

TURNED = 16  # entries that the first steps of a long transform combine: they fill a few cache lines
LEAST_TURNED = 128
"""Least length of a long transform; below it a transpose costs more than it saves."""


def parity(words: NDArray[Any]) -> NDArray[np.uint8]:
    """Return 1 for every non-negative integer with an odd number of binary ones, else 0."""
    odd: NDArray[np.uint8] = np.bitwise_count(words) & np.uint8(1)
    return odd


def signs(words: NDArray[Any]) -> NDArray[np.float64]:
    """Return -1.0 for every non-negative integer with an odd number of binary ones, else 1.0."""
    return np.asarray(1.0 - 2.0 * parity(words), np.float64)


def transform(table: NDArray[Any]) -> NDArray[Any]:
    """Return ``sum over x of chi_a(x) · table[..., x]`` for every a: shape (..., K), K = 2^j.

    Not scaled: two transforms multiply by K. Integers are exact. Cost O(K log K) per row.
    """
    *rows, size = table.shape
    if size < LEAST_TURNED:
        out = table.reshape(*rows, size, 1).copy()
        return _butterflies(out, np.empty_like(out))[0].reshape(table.shape)
    # Pairs of near entries make short inner loops. So the first steps work on the transpose.
    turned = table.reshape(*rows, size // TURNED, TURNED).swapaxes(-1, -2).copy()
    turned, spare = _butterflies(turned, np.empty_like(turned))
    out = spare.reshape(*rows, size // TURNED, TURNED)
    out[...] = turned.swapaxes(-1, -2)
    return _butterflies(out, turned.reshape(out.shape))[0].reshape(table.shape)


def _butterflies(values: NDArray[Any], spare: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Transform the last axis but one; return the result and the other of the two arrays."""
    *rows, size, columns = values.shape
    half = 1
    while half < size:
        shape = (*rows, size // (2 * half), 2, half, columns)
        old, new = values.reshape(shape), spare.reshape(shape)
        first, second = old[..., 0, :, :], old[..., 1, :, :]
        np.add(first, second, out=new[..., 0, :, :])
        np.subtract(first, second, out=new[..., 1, :, :])
        values, spare = spare, values
        half *= 2
    return values, spare


def power_of_two(least: int) -> int:
    """Return the smallest power of two that is at least ``least``."""
    return 1 << (least - 1).bit_length()
