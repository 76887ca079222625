"""Hadamard count-mean sketch (Apple, 2017; InpHTCMS in Cormode et al., SIGMOD 2018).

A few hash functions map many cells to a few buckets, so that counters need little memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from calmstream.common.errors import PlanError
from calmstream.estimators.arrays import Counts, Floats
from calmstream.estimators.draws import coins_bytes
from calmstream.estimators.mechanisms.base import (
    Channel,
    Column,
    Covariance,
    Mechanism,
    Reports,
    ReportWork,
)
from calmstream.estimators.mechanisms.coefficient import flip
from calmstream.estimators.mechanisms.covariance import independent_noise, summed_into
from calmstream.estimators.mechanisms.grr import count_cells
from calmstream.estimators.mechanisms.hashing import buckets, mix
from calmstream.estimators.mechanisms.response import by_sign, draw_rows, draw_signs
from calmstream.estimators.mechanisms.support import (
    MAX_CELLS,
    OTHER,
    require_integer,
    weighted_channel,
)
from calmstream.estimators.numerics.hadamard import parity, transform
from calmstream.estimators.randomness import Randomness, exp_weight, uniform_below, uniform_bytes


@dataclass(frozen=True)
class HadamardSketch(Mechanism):
    """A uniform hash h_j, a uniform row a, and the sign chi_a(h_j(cell)) by randomised response.

    chi_a(bucket) is -1 if a and bucket have an odd number of common ones, otherwise +1. Hash j maps
    a cell to ``bucket(mix(seed + j), cell, buckets)`` of :mod:`.hashing`.

    Report: columns ``h``, the hash, ``r``, the row, and ``s``, the sign (0 is +1, 1 is -1).
    Counters: the number of reports of each (hash, row, sign). Cost: 2 to 7 random bytes, O(1) to
    perturb and to tally, O(g (w log w + L)) to estimate.
    """

    name: ClassVar[str] = "hadamard-sketch"

    hashes: int  # g, 1 to 64
    buckets: int  # w, a power of two from 2 to 4096
    seed: int  # determines the hashes, 0 to 2^32 - 1; public, part of the plan

    def __post_init__(self) -> None:
        exp_weight(self.epsilon)
        require_integer("hadamard-sketch.cells", self.cells, 2, MAX_CELLS)
        require_integer("hadamard-sketch.hashes", self.hashes, 1, 64)
        require_integer("hadamard-sketch.buckets", self.buckets, 2, 4096)
        require_integer("hadamard-sketch.seed", self.seed, 0, (1 << 32) - 1)
        if self.buckets & (self.buckets - 1):
            raise PlanError(f"hadamard-sketch.buckets must be a power of two, got {self.buckets}")

    @classmethod
    def standard(cls, epsilon: str, cells: int) -> Self:
        return cls(epsilon, cells, hashes=5, buckets=256, seed=0)

    @property
    def width(self) -> int:
        return 2 * self.hashes * self.buckets

    @property
    def columns(self) -> tuple[Column, ...]:
        return (
            Column("h", "int", self.hashes),
            Column("r", "int", self.buckets),
            Column("s", "int", 2),
        )

    @cached_property
    def weight(self) -> int:
        return exp_weight(self.epsilon)

    @property
    def p(self) -> Fraction:
        return Fraction(self.weight, self.weight + OTHER)

    @cached_property
    def places(self) -> NDArray[np.int64]:
        """Bucket of every cell under every hash: shape (hashes, L), int64."""
        return buckets(self._seeds[:, None], np.arange(self.cells), self.buckets)

    @cached_property
    def _seeds(self) -> NDArray[np.uint32]:
        """The seed of every hash: shape (hashes,)."""
        first = np.uint64(self.seed) + np.arange(self.hashes, dtype=np.uint64)
        return mix(first.astype(np.uint32))

    @property
    def report_work(self) -> ReportWork:
        draws = uniform_bytes(self.hashes, 1) + uniform_bytes(self.buckets, 1) + coins_bytes(1)
        return ReportWork.of(self.columns, draws, hashes=1)

    def perturb(self, values: NDArray[Any], randomness: Randomness) -> dict[str, NDArray[Any]]:
        n = len(values)
        hashes = uniform_below(self.hashes, n, randomness)
        rows = uniform_below(self.buckets, n, randomness)
        signs = parity(rows & buckets(self._seeds[hashes], np.asarray(values), self.buckets))
        return {"h": hashes, "r": rows, "s": flip(signs, 1 - self.p, randomness)}

    def tally(self, reports: Reports, view: NDArray[Any] | None, views: int) -> Counts:
        row = reports["h"].astype(np.int64) * self.buckets + reports["r"]
        return count_cells(2 * row + reports["s"], self.width, view, views)

    def estimate(self, counts: Counts, n: int) -> Floats:
        """Return frequencies, (L,), that are unbiased on average over random hash functions.

        For given hashes, a cell also contains those that share its buckets, less what is expected.
        """
        if n == 0:
            return np.zeros(self.cells)
        plus, minus = np.moveaxis(counts.reshape(self.hashes, self.buckets, 2), 2, 0)
        sums = np.take_along_axis(transform(plus - minus), self.places, axis=1).sum(axis=0)
        scale = self._scale / (n * float(2 * self.p - 1))
        return np.asarray(sums * scale - 1 / (self.buckets - 1))

    @property
    def _scale(self) -> float:
        """The factor w / (w - 1) that corrects for other cells in a bucket."""
        return self.buckets / (self.buckets - 1)

    def variance(self, n: int, frequencies: Floats | None = None) -> Floats:
        """Return the variance over reports and random hash functions: shape (L,).

        Two cells share a bucket in a fraction kappa of the hashes, of mean 1 / w and variance (1 -
        1 / w) / (g w). The last term comes from these; more reports do not lower it.
        """
        f = np.full(self.cells, 1 / self.cells) if frequencies is None else np.asarray(frequencies)
        g, w = self.hashes, self.buckets
        kappa_squared = (1 + (g - 1) / w) / (g * w)
        # A report adds 1 / (2p - 1) or minus that: on average 1 to its cell, kappa to any other.
        squared_means = f + (f.sum() - f) * kappa_squared
        signs = self._scale**2 * (1 / float(2 * self.p - 1) ** 2 - squared_means) / n
        collisions = (np.sum(f**2) - f**2) / (g * (w - 1))
        return np.asarray(signs + collisions)

    def covariance(self, n: int, frequencies: Floats) -> Covariance:
        """Return a covariance that neglects the common noise of cells with the same bucket."""
        return independent_noise(self.variance(n, frequencies), n, frequencies)

    def table_covariance(
        self, n: int, expected: Floats, shape: Sequence[int], axes: Sequence[int]
    ) -> Floats:
        """Return the exact covariance, given the hash functions.

        A report with hash j adds the product of two signs to two cells: it is 1 on average over the
        rows if the cells share a bucket of hash j, else 0.
        """
        cells, index = len(expected), summed_into(shape, axes)
        moment = np.zeros((cells, cells))
        for places in self.places:
            shared = np.zeros((self.buckets, cells))
            np.add.at(shared, (places, index), 1.0)
            moment += shared.T @ shared
        moment *= (self._scale / float(2 * self.p - 1)) ** 2 / self.hashes
        # `estimate` subtracts a constant of every cell, which has no variance.
        mean = expected + (self.cells // cells) / (self.buckets - 1)
        return np.asarray((moment - np.outer(mean, mean)) / n)

    def rarest(self, _expected: Floats, _shape: Sequence[int], _axes: Sequence[int], /) -> float:
        """Return a lower bound: the probability of the wrong sign."""
        return float(1 - self.p)

    def draw_tally(self, histogram: Counts, generator: np.random.Generator) -> Counts:
        """Draw from the exact distribution, given the hashes, in O(L g + g w^2)."""
        g, w = self.hashes, self.buckets
        devices = generator.multinomial(histogram, np.full(g, 1 / g))
        per_bucket = np.zeros((g, w), np.int64)
        for j in range(g):
            np.add.at(per_bucket[j], self.places[j], devices[:, j])
        truth = [draw_rows(histogram, w, generator) for histogram in per_bucket]
        return draw_signs(np.concatenate(truth), self.p, generator)

    def channel(self) -> Channel:
        signs = parity(np.arange(self.buckets)[:, None] & self.places[:, None])
        return weighted_channel(by_sign(signs.reshape(-1, self.cells)), self.weight)
