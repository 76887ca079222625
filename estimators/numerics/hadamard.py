"""The Walsh-Hadamard transform.

Its matrix has the entries chi_a(x) = (-1)^parity(a & x): -1 if the binary numbers a and x have an
odd number of common ones, otherwise +1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def parity(words: NDArray[Any]) -> NDArray[np.uint8]:
    """Return 1 for every non-negative integer with an odd number of binary ones, else 0."""
    odd: NDArray[np.uint8] = np.bitwise_count(words) & np.uint8(1)
    return odd


def signs(words: NDArray[Any]) -> NDArray[np.float64]:
    """Return -1.0 for every non-negative integer with an odd number of binary ones, else 1.0."""
    return np.asarray(1.0 - 2.0 * parity(words), np.float64)


def transform(table: NDArray[Any]) -> NDArray[Any]:
    """Return ``sum over x of chi_a(x) · table[..., x]`` for every a.

    The sum is not scaled, so two transforms multiply a table by K.

    Args:
        table: integers or floats; its last axis has the length K, a power of two.

    Returns:
        An array of the same shape and type; integer results are exact. Cost O(K log K) per row.
    """
    size = table.shape[-1]
    out = table.copy()
    half = 1
    while half < size:
        pairs = out.reshape(*table.shape[:-1], size // (2 * half), 2, half)
        first, second = pairs[..., 0, :], pairs[..., 1, :]
        total = first + second
        np.subtract(first, second, out=second)
        first[...] = total
        half *= 2
    return out


def power_of_two(least: int) -> int:
    """Return the smallest power of two that is at least ``least``."""
    return 1 << (least - 1).bit_length()
