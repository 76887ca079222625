"""Bloom filters with randomised response on every bit, as in LoPub and RAPPOR.

The regression of `lasso` needs little of a report: for every combination of values of some
attributes, counters add up the product over attributes of the value's ones (`bloom_counts`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product
from math import prod
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from calmstream.estimators.arrays import Counts, Floats
from calmstream.estimators.draws import coins_bytes
from calmstream.estimators.mechanisms.base import Channel, Column, Covariance, Reports, ReportWork
from calmstream.estimators.mechanisms.bits import random_rows, row_bytes
from calmstream.estimators.mechanisms.covariance import independent_noise, sum_out
from calmstream.estimators.mechanisms.support import OTHER, require_integer
from calmstream.estimators.papers.castell.joint_tables import (
    JointTables,
    RecordMechanism,
    digits_of,
    integer_row,
    integer_rows,
)
from calmstream.estimators.papers.castell.product_grr import check_axes
from calmstream.estimators.papers.lopub.bloom_counts import add_products
from calmstream.estimators.papers.lopub.bloom_filters import Facts, comparisons, facts, filter_rows
from calmstream.estimators.papers.lopub.lasso import fold_axis
from calmstream.estimators.randomness import Randomness, exp_weight, parse_epsilon

BITS, HASHES = 64, 5
"""Default number of bits of a filter and of hashes per value: those of LoPub's experiments."""


@dataclass(frozen=True)
class BloomRR(RecordMechanism):
    """Bloom filters (`bloom_filters`) of every attribute, with randomised response on every bit.

    A bit is flipped with probability ``2^32 / (2^32 + weight)``, where
    ``weight = floor(exp(epsilon / D) · 2^32)``, D as in `distance`. Report: one column ``b<i>`` of
    ``bits`` bits per axis. Counters: sums of products, as the module explains; each axis of a table
    has a first entry with the constant 1, so that the counters contain those of smaller sets. Cost:
    O(bits · axes) to perturb, O(table cells) to tally.
    """

    name: ClassVar[str] = "bloom-rr"

    axes: tuple[int, ...]  # numbers of values; an input is a mixed-radix number, last axis fastest
    bits: int  # of a filter, 2 to 1024
    hashes: int  # per value, 1 to 16
    tables: tuple[tuple[int, ...], ...]  # ascending positions of those counted

    def __post_init__(self) -> None:
        object.__setattr__(self, "axes", integer_row("bloom-rr.axes", self.axes))
        object.__setattr__(self, "tables", integer_rows("bloom-rr.tables", self.tables))
        check_axes(self.name, self.cells, self.axes)
        require_integer("bloom-rr.bits", self.bits, 2, 1024)
        require_integer("bloom-rr.hashes", self.hashes, 1, 16)
        parse_epsilon(self.epsilon)
        self.layout  # noqa: B018 - validates the tables

    @classmethod
    def standard(cls, epsilon: str, cells: int) -> Self:
        return cls(epsilon, cells, (cells,), BITS, HASHES, ((0,),))

    def check(self) -> None:
        self.weight  # noqa: B018 - its value needs all filters

    @property
    def report_work(self) -> ReportWork:
        draws = len(self.axes) * coins_bytes(row_bytes(self.bits))
        compared = sum(comparisons(r, self.bits) for r in self.axes)
        hashed = self.hashes * (sum(self.axes) + len(self.axes))
        return ReportWork.of(self.columns, draws, hashes=hashed, comparisons=compared)

    @cached_property
    def filters(self) -> tuple[NDArray[np.uint8], ...]:
        return tuple(
            filter_rows(i, np.arange(r), self.bits, self.hashes) for i, r in enumerate(self.axes)
        )

    @cached_property
    def grams(self) -> tuple[Floats, ...]:
        """Number of common ones of every two filters of an axis, one square matrix per axis."""
        return tuple(f.astype(np.float64) @ f.T.astype(np.float64) for f in self.filters)

    @cached_property
    def _facts(self) -> tuple[Facts, ...]:
        return tuple(facts(i, r, self.bits, self.hashes) for i, r in enumerate(self.axes))

    @cached_property
    def distance(self) -> int:
        """D: the maximum number of bits in which the filters of two records differ.

        It is the sum over axes of the maximum for two filters, at most 2 · hashes.
        """
        return sum(axis.distance for axis in self._facts)

    @cached_property
    def weight(self) -> int:
        return exp_weight(self.epsilon, self.distance)

    @property
    def q(self) -> Fraction:
        return Fraction(OTHER, OTHER + self.weight)

    @property
    def per_bit(self) -> float:
        """What the flip of a bit adds to the variance of its unbiased estimate."""
        return float(self.q * (1 - self.q) / (1 - 2 * self.q) ** 2)

    @cached_property
    def layout(self) -> JointTables:
        return JointTables(tuple(r + 1 for r in self.axes), self.tables)

    @property
    def width(self) -> int:
        return self.layout.width

    @cached_property
    def largest_count(self) -> int:
        """What a report with all bits set adds to a counter: ones of the largest filters."""
        return max(prod(self._facts[i].heaviest for i in table) for table in self.tables)

    @property
    def columns(self) -> tuple[Column, ...]:
        return tuple(Column(f"b{i}", "bits", self.bits) for i in range(len(self.axes)))

    def perturb(self, values: NDArray[Any], randomness: Randomness) -> dict[str, NDArray[Any]]:
        reports = {}
        for i, code in enumerate(digits_of(values, self.axes)):
            flips = random_rows(len(code), self.bits, self.q, randomness)
            reports[f"b{i}"] = self._packed(i, code) ^ flips
        return reports

    def _packed(self, axis: int, code: NDArray[np.int64]) -> NDArray[np.uint8]:
        if len(code) < self.axes[axis]:
            rows = filter_rows(axis, code, self.bits, self.hashes)
            return np.packbits(rows, axis=1, bitorder="little")
        return np.asarray(np.packbits(self.filters[axis], axis=1, bitorder="little")[code])

    def tally(self, reports: Reports, view: NDArray[Any] | None, views: int) -> Counts:
        ones = self.ones(reports)
        chosen = (slice(None) if view is None else view == v for v in range(views))
        return np.stack([add_products([o[:, rows] for o in ones], self.tables) for rows in chosen])

    def ones(self, reports: Reports) -> list[NDArray[np.float32]]:
        """Return per axis the ones of every value in every report, after a row of 1: `Ones`."""
        found = []
        for i, filters in enumerate(self.filters):
            rows = np.unpackbits(reports[f"b{i}"], axis=1, count=self.bits, bitorder="little")
            hits = filters.astype(np.float32) @ rows.T.astype(np.float32)
            found.append(np.concatenate([np.ones((1, hits.shape[1]), np.float32), hits]))
        return found

    def scores(self, counts: Counts, n: int, attributes: Sequence[int]) -> Floats:
        """Return ``M^T y``, unbiased, over ascending attributes: the input of the regression.

        M has the filters of all combinations of values as columns, y the joint frequencies of bits.
        """
        table = self.layout.holder(attributes)
        if table is None:
            raise KeyError(tuple(attributes))
        cube = self.layout.cube(counts, table) / n
        cube = cube[tuple(slice(None) if i in attributes else 0 for i in table)]
        gap, q = float(1 - 2 * self.q), float(self.q)
        for axis, i in enumerate(attributes):
            # Flips turn the number of ones t of a filter with b bits into q b + (1 - 2 q) t on
            # average; the matrix inverts this, with b from the constant entry.
            filter_bits = np.diag(self.grams[i])
            change = np.concatenate([-q * filter_bits[:, None], np.eye(self.axes[i])], axis=1) / gap
            cube = fold_axis(cube, axis, change)
        return cube

    def estimate(self, counts: Counts, n: int) -> Floats:
        """Return least squares: unbiased if the filters of every axis are linearly independent."""
        return self.table(counts, n, self.axes, range(len(self.axes)))

    def variance(self, n: int, frequencies: Floats | None = None) -> Floats:
        f = np.full(self.axes, 1 / self.cells) if frequencies is None else np.asarray(frequencies)
        return self.noise(f.reshape(self.axes), range(len(self.axes)), n).reshape(-1)

    def covariance(self, n: int, frequencies: Floats) -> Covariance:
        """Return a covariance that neglects the common noise of values with common bits."""
        return independent_noise(self.variance(n, frequencies), n, frequencies)

    def noise(self, frequencies: Floats, attributes: Sequence[int], n: int) -> Floats:
        """Return the variance of the least-squares estimate of a table of ascending attributes."""
        moment = frequencies
        for axis, i in enumerate(attributes):
            shape = [1] * frequencies.ndim
            shape[axis] = self.axes[i]
            # What the flips add to the second moment of a least-squares score.
            added = (self.per_bit * np.diag(np.linalg.pinv(self.grams[i]))).reshape(shape)
            moment = moment + added * moment.sum(axis=axis, keepdims=True)
        return np.asarray(np.maximum(moment - frequencies, 0.0) / n)

    def table(
        self,
        counts: Counts,
        n: int,
        shape: Sequence[int],  # noqa: ARG002
        axes: Sequence[int],
    ) -> Floats:
        if n == 0:
            return np.zeros(prod(self.axes[i] for i in axes))
        cube = self.scores(counts, n, axes)
        for axis, i in enumerate(axes):
            cube = fold_axis(cube, axis, self._inverses[i])
        return cube.reshape(-1)

    def table_covariance(
        self,
        n: int,
        expected: Floats,
        shape: Sequence[int],  # noqa: ARG002
        axes: Sequence[int],
    ) -> Floats:
        """Return the exact covariance for linearly independent filters.

        Given a record, the scores of different attributes are independent, each with the covariance
        ``q (1 - q) / (1 - 2 q)^2 G^-1``, G the common ones of its filters. An estimated table is
        moved to the sum 1, because the noise has its sum as a factor.
        """
        own = tuple(self.axes[i] for i in axes)
        expected = expected + (1.0 - expected.sum()) / expected.size
        added = [self.per_bit * inverse for inverse in self._inverses]
        moment = np.zeros((len(expected), len(expected)))
        for flipped in product((False, True), repeat=len(own)):
            kept = [axis for axis, noise in enumerate(flipped) if not noise]
            weight = np.array(sum_out(expected, own, kept))
            parts = [added[i] for i, noise in zip(axes, flipped, strict=True) if noise]
            moment += _interleaved(np.diag(weight), parts, flipped, own)
        return np.asarray((moment - np.outer(expected, expected)) / n)

    @cached_property
    def _inverses(self) -> tuple[Floats, ...]:
        return tuple(
            np.asarray(np.linalg.pinv(gram, hermitian=True), np.float64) for gram in self.grams
        )

    def rarest(self, _expected: Floats, _shape: Sequence[int], _axes: Sequence[int], /) -> float:
        """Return a lower bound: the probability that a bit is flipped."""
        return float(self.q)

    def channel(self) -> Channel:
        q = self.q
        place = 1 << np.arange(self.bits)
        filters = [(rows @ place).tolist() for rows in self.filters]
        outputs = list(product(range(1 << self.bits), repeat=len(self.axes)))
        # Probability of an output by the number of bits in which it differs from the filter.
        chances = [q**k * (1 - q) ** (self.bits - k) for k in range(self.bits + 1)]
        return tuple(
            tuple(
                prod(
                    (chances[(filters[i][v] ^ y[i]).bit_count()] for i, v in enumerate(record)),
                    start=Fraction(1),
                )
                for y in outputs
            )
            for record in product(*(range(r) for r in self.axes))
        )


def _interleaved(
    kept: Floats, noise: Sequence[Floats], flipped: Sequence[bool], shape: Sequence[int]
) -> Floats:
    """Return the Kronecker product of matrices with the axes in the order of the table."""
    product_of = kept
    for matrix in noise:
        product_of = np.asarray(np.kron(product_of, matrix), np.float64)
    order = [i for i, noisy in enumerate(flipped) if not noisy]
    order += [i for i, noisy in enumerate(flipped) if noisy]
    sizes = [shape[i] for i in order]
    place = np.argsort(order)
    cube = product_of.reshape(*sizes, *sizes).transpose(*place, *(place + len(order)))
    cells = prod(shape)
    return np.asarray(cube.reshape(cells, cells), np.float64)
