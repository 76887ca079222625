"""Optimised local hashing (OLH; Wang et al., USENIX Security 2017)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from calmstream.estimators.arrays import Counts
from calmstream.estimators.draws import RESPONSE_BYTES, respond
from calmstream.estimators.mechanisms.base import Channel, Column, Reports, ReportWork
from calmstream.estimators.mechanisms.hashing import bucket_bounds, buckets, keys, mix
from calmstream.estimators.mechanisms.support import (
    OTHER,
    SupportOracle,
    require_integer,
    weighted_channel,
)
from calmstream.estimators.mechanisms.unary import draw_supports
from calmstream.estimators.randomness import Randomness, exp_weight, uniform_below, uniform_bytes

SEED_BITS = 32
"""Maximum number of bits of a seed: the hash uses 32-bit arithmetic."""

BLOCK = 1 << 14
"""Number of hashes that are computed at once, so that they stay in a core's cache."""


@dataclass(frozen=True)
class OLH(SupportOracle):
    """Each device hashes its cell to one of g buckets by a seed of its own, then uses GRR.

    Report: columns ``s``, the seed, and ``y``, the reported bucket. A report supports all cells
    that its seed hashes to y. Counters: the number of reports that support each cell.
    Cost: 12 random bytes per report; O(1) to perturb, O(L) to tally.

    The probability that a report supports another cell, 1 / g, is that of an ideal hash. With the
    hash of this project, two given cells have the same bucket for a share of the 2^32 seeds that
    differs from 1 / g by about 1e-5. Privacy does not depend on the hash.
    """

    name: ClassVar[str] = "olh"

    buckets: int  # g; round(e^epsilon) + 1 minimises the variance
    seed_bits: int  # 32 except in tests that list the channel

    def __post_init__(self) -> None:
        super().__post_init__()
        require_integer("olh.buckets", self.buckets, 2, 1 << 24)
        require_integer("olh.seed_bits", self.seed_bits, 1, SEED_BITS)

    @classmethod
    def standard(cls, epsilon: str, cells: int) -> Self:
        return cls(epsilon, cells, (exp_weight(epsilon) + OTHER // 2) // OTHER + 1, SEED_BITS)

    @property
    def columns(self) -> tuple[Column, ...]:
        return (Column("s", "int", 1 << self.seed_bits), Column("y", "int", self.buckets))

    @property
    def p(self) -> Fraction:
        return Fraction(self.weight, self.weight + (self.buckets - 1) * OTHER)

    @property
    def q(self) -> Fraction:
        """Probability that an ideal hash assigns another cell to the reported bucket."""
        return Fraction(1, self.buckets)

    @cached_property
    def _keys(self) -> NDArray[np.uint32]:
        """The part of the hash of every cell that does not depend on the seed."""
        return keys(np.arange(self.cells))

    @property
    def report_work(self) -> ReportWork:
        draws = uniform_bytes(1 << self.seed_bits, 1) + RESPONSE_BYTES
        return ReportWork.of(self.columns, draws, hashes=1)

    def perturb(self, values: NDArray[Any], randomness: Randomness) -> dict[str, NDArray[Any]]:
        values = np.asarray(values)
        seeds = uniform_below(1 << self.seed_bits, len(values), randomness)
        own = np.empty(len(values), np.int64)
        for start in range(0, len(values), BLOCK):
            block = slice(start, start + BLOCK)
            own[block] = buckets(seeds[block], values[block], self.buckets)
        return {"s": seeds, "y": respond(own, self.buckets, self.weight, randomness)}

    def tally(self, reports: Reports, view: NDArray[Any] | None, views: int) -> Counts:
        """Count the reports that support each cell, per view.

        Reports are sorted by view. A block of reports can contain the end of one view, whole views
        and the start of another; ``begins`` are the positions in the block where a view starts.
        """
        out = np.zeros((views, self.cells), np.int64)
        bounds, y = bucket_bounds(self.buckets), reports["y"]
        seeds, low = reports["s"].astype(np.uint32), bounds[:-1].astype(np.uint32)[y]
        span = np.diff(bounds).astype(np.uint32)[y]
        present, starts = np.zeros(1, np.int64), np.zeros(1, np.int64)
        if view is not None and views > 1:
            order = np.argsort(view, kind="stable")
            seeds, low, span = seeds[order], low[order], span[order]
            present, first = np.unique(view[order], return_index=True)
            starts = first.astype(np.int64)
        for a in range(0, len(seeds), BLOCK):
            block = slice(a, a + BLOCK)
            first_view = int(np.searchsorted(starts, a, side="right")) - 1
            end_view = int(np.searchsorted(starts, a + BLOCK, side="left"))
            begins = np.maximum(starts[first_view:end_view] - a, 0)
            out[present[first_view:end_view]] += self._supports(
                seeds[block], low[block], span[block], begins
            )
        return out

    def _supports(
        self, seeds: NDArray[Any], low: NDArray[Any], span: NDArray[Any], begins: NDArray[Any]
    ) -> Counts:
        """Count the supporting reports of a block, from each of ``begins`` to the next.

        ``low``, ``span``: the first hash and the number of hashes of each report's bucket.
        """
        out = np.empty((len(begins), self.cells), np.int64)
        step = max(1, BLOCK // len(seeds))
        for c in range(0, self.cells, step):
            words = mix(seeds ^ self._keys[c : c + step, None])
            # A hash is in the bucket if low <= hash < low + span; unsigned differences wrap, so
            # one comparison tests both.
            words -= low
            out[:, c : c + step] = _sums(words < span, begins)
        return out

    def draw_tally(self, histogram: Counts, generator: np.random.Generator) -> Counts:
        """Draw for an ideal hash in O(L): a report supports the cells independently."""
        return draw_supports(histogram, self.p, self.q, generator)

    def channel(self) -> Channel:
        seeds = 1 << self.seed_bits
        own = buckets(np.arange(seeds)[:, None], np.arange(self.cells), self.buckets)
        supported = own[:, None] == np.arange(self.buckets)[:, None]
        return weighted_channel(supported.reshape(-1, self.cells), self.weight)


def _sums(matches: NDArray[np.bool_], begins: NDArray[Any]) -> Counts:
    """Count the true entries of every row from each of ``begins`` to the next."""
    if len(begins) == 1:
        ones: Counts = np.bitwise_count(np.packbits(matches, axis=1)).sum(axis=1, dtype=np.int64)
        return ones[None]
    return np.add.reduceat(matches.view(np.uint8), begins, axis=1, dtype=np.int64).T
