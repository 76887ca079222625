"""The Walsh-Hadamard transform; chi_a(x) = (-1)^<a, x>, <a, x> the parity of a & x."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def parity(words: NDArray[Any]) -> NDArray[np.uint8]:
    """1 where a non-negative integer has an odd number of ones: chi is +1 at 0, -1 at 1."""
    odd: NDArray[np.uint8] = np.bitwise_count(words) & np.uint8(1)
    return odd


def transform(table: NDArray[Any]) -> NDArray[Any]:
    """``sum over x of chi_a(x) · table[..., x]`` for every a, unscaled and so its own inverse / K.

    Args:
        table: last axis of length K, a power of two; integers or floats.

    Returns:
        Same shape and kind; integer results are exact. Cost O(K log K) per row.
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
