"""Every attribute a Bloom filter whose bits go through randomised response (LoPub, RAPPOR).

The report carries all bits. What is counted is much less, and enough: the Lasso needs only, for
each candidate value of an attribute set, the mean over reports of the product of the numbers of
ones that the report has among the value's bits. Those numbers are small integers, so the sums are
integer counters, one per candidate, additive over batches.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from estimators.mechanisms.base import Column, ReportWork, require_enumerable
from estimators.mechanisms.bits import random_rows, row_bytes
from estimators.mechanisms.bloom_filters import Facts, comparisons, facts, filter_rows
from estimators.mechanisms.covariance import independent_noise
from estimators.mechanisms.joint_tables import JointTables, digits_of, integer_row, integer_rows
from estimators.mechanisms.product_grr import check_axes
from estimators.mechanisms.support import OTHER, require_integer
from estimators.numerics.block_inverse import fold_axis
from estimators.randomness import SeededRandomness, coins_bytes, exp_weight, parse_epsilon

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from estimators.mechanisms.base import Channel, Counts, Covariance, Floats, Reports
    from estimators.randomness import Randomness

BITS, HASHES = 64, 5
"""Of the paper's experiments."""

_BLOCK_ENTRIES = 1 << 18
"""Products held at once while tallying."""


@dataclass(frozen=True)
class BloomRR:
    """Bloom filters with bitwise randomised response.

    A value of axis i sets the bits of its filter (see :mod:`.bloom_filters`). Every bit is flipped
    independently with odds 2^32 : weight, ``weight = floor(exp(epsilon / D) · 2^32)``, where D is
    the sum over axes of the largest number of bits in which two of its filters differ, at most
    2 · hashes each: a record can change no more bits than that.

    Report: one column ``b<i>`` of ``bits`` bits per axis. Counters: for each table the sum over
    reports of the products of ones among the bits of the values, value 0 standing for the constant
    1, so that smaller sets are contained. Cost: O(bits · axes) to perturb, O(table cells) to tally.

    Attributes:
        epsilon: decimal string, the whole loss of one report.
        cells: number of values of a record, the product of ``axes``; below 2^62.
        axes: cardinalities; the input is the record's mixed-radix number, last axis fastest.
        bits: of a filter, 2 to 1024.
        hashes: per value, 1 to 16.
        tables: attribute sets that can be queried, with all their subsets.
    """

    name: ClassVar[str] = "bloom-rr"
    fixed_total: ClassVar[bool] = False

    epsilon: str
    cells: int
    axes: tuple[int, ...]
    bits: int
    hashes: int
    tables: tuple[tuple[int, ...], ...]

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
        """One axis, the paper's filters."""
        return cls(epsilon, cells, (cells,), BITS, HASHES, ((0,),))

    def parameters(self) -> dict[str, Any]:
        """Axes, filters and tables."""
        return {
            "axes": list(self.axes),
            "bits": self.bits,
            "hashes": self.hashes,
            "tables": [list(table) for table in self.tables],
        }

    def check(self) -> None:
        """Compares the filters of every axis, which the constructor leaves undone for its cost.

        Raises:
            PlanError: two values have the same filter, or epsilon is absurd per bit.
        """
        self.weight  # noqa: B018 - its value needs all filters

    @property
    def report_work(self) -> ReportWork:
        """The filters of all values are needed once, for the distance; then those of one record."""
        draws = len(self.axes) * coins_bytes(row_bytes(self.bits))
        compared = sum(comparisons(r, self.bits) for r in self.axes)
        hashed = self.hashes * (sum(self.axes) + len(self.axes))
        return ReportWork.of(self.columns, draws, hashes=hashed, comparisons=compared)

    @cached_property
    def filters(self) -> tuple[NDArray[np.uint8], ...]:
        """Filters of every axis: shape (cardinality, bits), 0 or 1."""
        return tuple(self._rows(i, np.arange(r)) for i, r in enumerate(self.axes))

    def _rows(self, axis: int, values: NDArray[Any]) -> NDArray[np.uint8]:
        return filter_rows(axis, values, self.bits, self.hashes)

    @cached_property
    def grams(self) -> tuple[Floats, ...]:
        """Common bits of every two filters of an axis: shape (cardinality, cardinality)."""
        return tuple(f.astype(np.float64) @ f.T.astype(np.float64) for f in self.filters)

    @cached_property
    def _facts(self) -> tuple[Facts, ...]:
        return tuple(facts(i, r, self.bits, self.hashes) for i, r in enumerate(self.axes))

    @cached_property
    def distance(self) -> int:
        """D: most bits in which the filters of two records differ."""
        return sum(axis.distance for axis in self._facts)

    @cached_property
    def weight(self) -> int:
        """What a bit's truth weighs against 2^32."""
        return exp_weight(self.epsilon, self.distance)

    @property
    def q(self) -> Fraction:
        """Odds that a bit is flipped."""
        return Fraction(OTHER, OTHER + self.weight)

    @cached_property
    def layout(self) -> JointTables:
        """Counters by table; each axis has one place more than values, the first one constant."""
        return JointTables(tuple(r + 1 for r in self.axes), self.tables)

    @property
    def counts_joint(self) -> bool:
        """Whether the joint of all attributes can be read from the counters."""
        return self.layout.holder(range(len(self.axes))) is not None

    @property
    def width(self) -> int:
        """Counters of all tables."""
        return self.layout.width

    @cached_property
    def largest_count(self) -> int:
        """A report with every bit set: the product of a table's largest filters, up to hashes."""
        return max(prod(self._facts[i].heaviest for i in table) for table in self.tables)

    @property
    def columns(self) -> tuple[Column, ...]:
        """One filter per axis."""
        return tuple(Column(f"b{i}", "bits", self.bits) for i in range(len(self.axes)))

    def perturb(self, values: NDArray[Any], randomness: Randomness) -> dict[str, NDArray[Any]]:
        """See :meth:`Mechanism.perturb`; packed rows."""
        reports = {}
        for i, code in enumerate(digits_of(values, self.axes)):
            flips = random_rows(len(code), self.bits, self.q, randomness)
            reports[f"b{i}"] = self._packed(i, code) ^ flips
        return reports

    def _packed(self, axis: int, code: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Return the packed filter of every report's value."""
        if len(code) < self.axes[axis]:
            return np.packbits(self._rows(axis, code), axis=1, bitorder="little")
        table = np.packbits(self.filters[axis], axis=1, bitorder="little")
        packed: NDArray[np.uint8] = table[code]
        return packed

    def tally(self, reports: Reports, view: NDArray[Any] | None, views: int) -> Counts:
        """Products of ones, summed: shape (views, width), int64."""
        ones = self.ones(reports)
        return np.stack(
            [
                self._count(ones if view is None else [axis[:, view == v] for axis in ones])
                for v in range(views)
            ]
        )

    def _count(self, ones: list[NDArray[np.float32]]) -> Counts:
        """Return the counters of one view: shape (width,).

        Tables that differ in their last axis only share the products of the others.
        """
        alike: dict[tuple[int, ...], list[int]] = {}
        for *first, last in self.tables:
            alike.setdefault(tuple(first), []).append(last)
        found = {}
        for shared, lasts in alike.items():
            sums = _products([ones[i] for i in shared], np.concatenate([ones[i] for i in lasts]))
            ends = np.cumsum([len(ones[i]) for i in lasts])
            for last, part in zip(lasts, np.split(sums, ends[:-1], axis=1), strict=True):
                found[*shared, last] = part.reshape(-1)
        return np.concatenate([found[table] for table in self.tables])

    def ones(self, reports: Reports) -> list[NDArray[np.float32]]:
        """For every axis 1 and the ones among each value's bits: shape (cardinality + 1, n)."""
        found = []
        for i, filters in enumerate(self.filters):
            rows = np.unpackbits(reports[f"b{i}"], axis=1, count=self.bits, bitorder="little")
            hits = filters.astype(np.float32) @ rows.T.astype(np.float32)
            found.append(np.concatenate([np.ones((1, hits.shape[1]), np.float32), hits]))
        return found

    def scores(self, counts: Counts, n: int, attributes: tuple[int, ...]) -> Floats:
        """Return unbiased ``filters · bit frequencies`` of every value of ascending ``attributes``.

        That is what a regression of the joint bit frequencies on the values' filters needs, apart
        from the Gram matrices.

        Raises:
            KeyError: no table holds the attributes.
        """
        table = self.layout.holder(attributes)
        if table is None:
            raise KeyError(attributes)
        start = sum(self.layout.sizes[: self.tables.index(table)])
        shape = [self.axes[i] + 1 for i in table]
        cube = counts[start : start + prod(shape)].reshape(shape) / n
        cube = cube[tuple(slice(None) if i in attributes else 0 for i in table)]
        gap, q = float(1 - 2 * self.q), float(self.q)
        for axis, i in enumerate(attributes):
            own = np.diag(self.grams[i])
            change = np.concatenate([-q * own[:, None], np.eye(self.axes[i])], axis=1) / gap
            cube = fold_axis(cube, axis, change)
        return cube

    def spread(self, attribute: int) -> Floats:
        """What noise adds to the second moment of a value's least-squares score: shape (r,)."""
        q = self.q
        per_bit = float(q * (1 - q) / (1 - 2 * q) ** 2)
        return per_bit * np.diag(np.linalg.pinv(self.grams[attribute]))

    def estimate(self, counts: Counts, n: int) -> Floats:
        """Least squares: shape (cells,); unbiased where every axis' filters are independent.

        Raises:
            ValueError: the joint is not counted, only its tables.
        """
        if n == 0:
            return np.zeros(self.cells)
        every = tuple(range(len(self.axes)))
        if not self.counts_joint:
            raise ValueError("the joint of all attributes is not counted, only its tables")
        cube = self.scores(counts, n, every)
        for axis in every:
            inverse = np.linalg.pinv(self.grams[axis], hermitian=True)
            cube = fold_axis(cube, axis, np.asarray(inverse, np.float64))
        return cube.reshape(-1)

    def variance(self, n: int, frequencies: Floats | None = None) -> Floats:
        """Exact variance of the least-squares estimate given the data: shape (cells,)."""
        f = np.full(self.axes, 1 / self.cells) if frequencies is None else np.asarray(frequencies)
        return self.noise(f.reshape(self.axes), tuple(range(len(self.axes))), n).reshape(-1)

    def covariance(self, n: int, frequencies: Floats) -> Covariance:
        """Neglects what cells share through common bits; see :meth:`Mechanism.covariance`."""
        return independent_noise(self.variance(n, frequencies), n, frequencies)

    def noise(self, frequencies: Floats, attributes: tuple[int, ...], n: int) -> Floats:
        """Return the variance of least squares over ``attributes``: shape of frequencies."""
        moment = frequencies
        for axis, i in enumerate(attributes):
            shape = [1] * frequencies.ndim
            shape[axis] = self.axes[i]
            added = self.spread(i).reshape(shape)
            moment = moment + added * moment.sum(axis=axis, keepdims=True)
        variance: Floats = np.maximum(moment - frequencies, 0.0) / n
        return variance

    def influence(self, weights: Floats, times: Floats) -> float:  # noqa: ARG002 - no bound is known
        """No bound is stated: infinite. See :meth:`Mechanism.influence`."""
        return math.inf

    @property
    def drawn_cells(self) -> int:
        """All values of a record."""
        return self.cells

    def draw_tally_of(self, values: NDArray[Any], generator: np.random.Generator) -> Counts:
        """See :meth:`Mechanism.draw_tally_of`."""
        return self.draw_tally(np.bincount(values, minlength=self.cells), generator)

    def draw_tally(self, histogram: Counts, generator: np.random.Generator) -> Counts:
        """Perturb every device: products of one report's bits have no simpler distribution."""
        values = np.repeat(np.arange(self.cells), histogram)
        seeded = SeededRandomness(int(generator.integers(1 << 62)))
        drawn: Counts = self.tally(self.perturb(values, seeded), None, 1)[0]
        return drawn

    def channel(self) -> Channel:
        """Outputs are all bit patterns, first axis most significant, bits as integers."""
        require_enumerable(1 << min(self.bits * len(self.axes), 13))
        q = self.q
        filters = [[_spelt(row) for row in rows] for rows in self.filters]
        outputs = list(product(range(1 << self.bits), repeat=len(self.axes)))
        odds = [q**k * (1 - q) ** (self.bits - k) for k in range(self.bits + 1)]
        return tuple(
            tuple(
                prod(
                    (odds[(filters[i][code] ^ y[i]).bit_count()] for i, code in enumerate(record)),
                    start=Fraction(1),
                )
                for y in outputs
            )
            for record in product(*(range(r) for r in self.axes))
        )

    def worst_ratio(self) -> Fraction:
        """(weight / 2^32)^D: two records differ in D bits at most, and some do."""
        return Fraction(self.weight, OTHER) ** self.distance


def _spelt(bits: NDArray[np.uint8]) -> int:
    return sum(1 << b for b, bit in enumerate(bits.tolist()) if bit)


def _products(first: list[NDArray[np.float32]], last: NDArray[np.float32]) -> Counts:
    """Return the sum over reports of the outer products of their entries.

    Args:
        first: shape (length, n) each; reports last, so that products run along memory.
        last: shape (length, n).

    Returns:
        Shape (product of the lengths of ``first``, length of ``last``), int64.
    """
    total = np.zeros((prod(len(f) for f in first), len(last)), np.int64)
    # Single precision is exact on integers below 2^24, which bounds the reports added at once.
    largest = prod(int(f.max(initial=1)) for f in (*first, last))
    step = min(max(1, _BLOCK_ENTRIES // len(total)), max(1, (1 << 24) // largest))
    for start in range(0, last.shape[1], step):
        rows = last[:, start : start + step]
        block = np.ones((1, rows.shape[1]), np.float32)
        for f in first:
            own = f[:, start : start + step]
            block = (block[:, None, :] * own).reshape(-1, rows.shape[1])
        total += (block @ rows.T).astype(np.int64)
    return total
