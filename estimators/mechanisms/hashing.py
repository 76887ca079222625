"""The hash that devices and the service share: 32-bit arithmetic that any language can repeat.

    mix(x):   x ^= x >> 16;  x *= 0x85EBCA6B;  x ^= x >> 13;  x *= 0xC2B2AE35;  x ^= x >> 16
    hash(seed, cell)       = mix(seed ^ mix(cell + 0x9E3779B9))
    bucket(seed, cell, g)  = floor(hash(seed, cell) · g / 2^32)

All operations but the last are modulo 2^32. ``mix`` is the finaliser of MurmurHash3 (public
domain); it is a bijection, so over a uniform seed every hash is exactly uniform. Changing anything
here is a new major version of the wire format.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint32]

GOLDEN = np.uint32(0x9E3779B9)  # 2^32 by the golden ratio, so that cell 0 is not mapped to 0


def mix(words: Words) -> Words:
    """Apply ``mix`` to every word in place, and return the array."""
    shifted = np.right_shift(words, np.uint32(16))
    words ^= shifted
    words *= np.uint32(0x85EBCA6B)
    np.right_shift(words, np.uint32(13), out=shifted)
    words ^= shifted
    words *= np.uint32(0xC2B2AE35)
    np.right_shift(words, np.uint32(16), out=shifted)
    words ^= shifted
    return words


def keys(cells: NDArray[Any]) -> Words:
    """Return ``mix(cell + 0x9E3779B9)`` of every cell, which is to be combined with a seed."""
    return mix(cells.astype(np.uint32) + GOLDEN)


def buckets(seeds: NDArray[Any], cells: NDArray[Any], count: int) -> NDArray[np.int64]:
    """Return the bucket in [0, count) of every (seed, cell), broadcast together."""
    words = mix(seeds.astype(np.uint32) ^ keys(cells))
    return (words.astype(np.uint64) * np.uint64(count) >> np.uint64(32)).astype(np.int64)


def bucket_bounds(count: int) -> NDArray[np.uint64]:
    """Return the first hash of every bucket, and 2^32 at the end: shape (count + 1,), uint64."""
    edges = np.arange(count + 1, dtype=np.uint64) << np.uint64(32)
    return (edges + np.uint64(count - 1)) // np.uint64(count)
