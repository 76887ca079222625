"""Draws the ones of many flipped Bloom filters at once; for simulation only.

Of a flipped filter, the counters of `bloom-rr` need only the number of ones among the bits of every
value. Bits that belong to the filters of the same values form a class. The ones of a class have a
binomial distribution, which depends on whether the filter of the device's value has these bits. All
classes together take a few states only if the axis has few values. Then a state is drawn from a
table of its exact distribution, which is much faster than all bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import comb, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calmstream.estimators.mechanisms.base import Counts, Floats

MAX_STATES = 1 << 12
"""Maximum number of states of an axis whose ones are drawn from a table."""

BLOCK = 1 << 16
"""Number of reports that are drawn at once, which limits the memory."""

_BINS = 1 << 16
"""Number of intervals of equal probability in a table."""


@dataclass(frozen=True)
class OnesTable:
    """The exact distribution of the ones of one axis.

    A uniform number falls into one of ``_BINS`` intervals. Nearly all intervals belong to one
    state; in the others, more digits of the number decide.

    Attributes:
        ones: shape (values + 1, states), the ones among the bits of each value in each state; the
            first row is 1.
        ends: shape (values, states), cumulative probabilities of the states for each own value.
        state: shape (values, _BINS), the state of each interval, or ``len(ends[0])`` where
            several states share it.
    """

    ones: NDArray[np.float32]
    ends: Floats
    state: NDArray[np.uint16]

    def draw(self, code: NDArray[Any], generator: np.random.Generator) -> NDArray[np.float32]:
        """Return the ones of reports of devices with these values: shape (values + 1, n)."""
        number = np.frombuffer(generator.bytes(2 * len(code)), np.uint16)
        state = self.state.reshape(-1)[number + (code.astype(np.int32) << 16)]
        open_ = np.flatnonzero(state == self.ends.shape[1])
        position = (number[open_] + generator.random(len(open_))) / _BINS
        own = code[open_]
        for value in range(len(self.ends)):
            chosen = own == value
            state[open_[chosen]] = np.searchsorted(self.ends[value], position[chosen], "right")
        return self.ones.take(state, axis=1)


def ones_table(filters: NDArray[np.uint8], flipped: Fraction) -> OnesTable | None:
    """Return the distribution of the ones of an axis, or None if it has too many states.

    Args:
        filters: shape (values, bits), 0 or 1.
    """
    used = filters[:, filters.any(axis=0)]
    classes, bits = np.unique(used, axis=1, return_counts=True)
    if prod(int(b) + 1 for b in bits) > MAX_STATES:
        return None
    counts = np.indices([b + 1 for b in bits]).reshape(len(bits), -1)
    ones = np.concatenate([np.ones((1, counts.shape[1])), classes.astype(np.float64) @ counts])
    q = float(flipped)
    rates = np.where(classes == 1, 1.0 - q, q)
    ends = np.cumsum([_probabilities(counts, bits, rate) for rate in rates], axis=1)
    ends[:, -1] = 1.0
    edges = np.arange(_BINS + 1) / _BINS
    places = np.stack([np.searchsorted(row, edges, "right") for row in ends])
    # The last edge is 1; a state whose end is an edge does not reach into the interval after it.
    upper = np.stack([np.searchsorted(row, edges[1:], "left") for row in ends])
    state = np.where(places[:, :-1] == upper, upper, counts.shape[1])
    return OnesTable(ones.astype(np.float32), ends, state.astype(np.uint16))


def _probabilities(counts: Counts, bits: Counts, rates: Floats) -> Floats:
    """Return the probabilities of states of independent binomial numbers: shape (states,).

    Args:
        counts: shape (classes, states).
    """
    total = np.ones(counts.shape[1])
    for count, m, rate in zip(counts, bits.tolist(), rates.tolist(), strict=True):
        ways = np.array([comb(m, k) for k in range(m + 1)], np.float64)
        total *= ways[count] * rate**count * (1.0 - rate) ** (m - count)
    return total


def blocks(histogram: Counts) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield the devices of a histogram in blocks of at most :data:`BLOCK`."""
    held: Counts = np.flatnonzero(histogram)
    ends = np.cumsum(histogram[held])
    for start in range(0, int(histogram.sum()), BLOCK):
        times = np.asarray(np.diff(np.clip(ends - start, 0, BLOCK), prepend=0), np.int64)
        chosen = times > 0
        yield held[chosen], times[chosen]
