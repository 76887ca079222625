"""Generalised randomised response (GRR) on blocks of a record's attributes, independently.

One attribute per block is the mechanism of RR-Independent and RR-Ind-Joint, all in one block that
of RR-Joint, other blocks that of RR-Clusters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product
from math import gcd, prod
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from calmstream.common.errors import PlanError
from calmstream.estimators.arrays import Counts, Floats
from calmstream.estimators.draws import respond
from calmstream.estimators.mechanisms.base import Channel, Column, Covariance, Reports
from calmstream.estimators.mechanisms.covariance import balanced_noise
from calmstream.estimators.mechanisms.support import OTHER, require_integer
from calmstream.estimators.numerics.block_inverse import (
    AxisChannel,
    mix,
    noise_given_truth,
    unmix,
)
from calmstream.estimators.papers.castell.joint_tables import (
    MAX_RECORD_CELLS,
    JointTables,
    RecordMechanism,
    cell_of,
    digits_of,
    integer_row,
    integer_rows,
)
from calmstream.estimators.randomness import MAX_PART, WEIGHT_BITS, Randomness, exp_weight

MAX_BLOCK_CELLS = 1 << 30  # so that the sum of their weights is below 2^63
MAX_WEIGHT = exp_weight(str(MAX_PART))  # of a block's true cell: that of every other mechanism


@dataclass(frozen=True)
class ProductGRR(RecordMechanism):
    """GRR block by block; a block of c of the d attributes spends c · epsilon / d.

    Its true cell has the weight ``floor(exp(c · epsilon / d) · 2^32)``, every other one 2^32.
    Report: one column ``x<b>`` per block, the reported cell. Counters: reported records in every
    table, one after another. Cost: 4 random bytes per block; O(axes of all tables) to tally.
    """

    name: ClassVar[str] = "product-grr"
    fixed_total: ClassVar[bool] = True

    axes: tuple[int, ...]  # numbers of values; an input is a mixed-radix number, last axis fastest
    blocks: tuple[tuple[int, ...], ...]  # ascending positions; each is in exactly one
    tables: tuple[tuple[int, ...], ...]  # ascending positions of those counted

    def __post_init__(self) -> None:
        object.__setattr__(self, "axes", integer_row("product-grr.axes", self.axes))
        object.__setattr__(self, "blocks", integer_rows("product-grr.blocks", self.blocks))
        object.__setattr__(self, "tables", integer_rows("product-grr.tables", self.tables))
        check_axes(self.name, self.cells, self.axes)
        members = sorted(i for block in self.blocks for i in block)
        if members != list(range(len(self.axes))) or not all(self.blocks):
            raise PlanError("product-grr.blocks: every axis must be in exactly one block")
        for block, size in zip(self.blocks, self.block_cells, strict=True):
            if list(block) != sorted(block):
                raise PlanError(
                    f"product-grr.blocks: the axes of a block must ascend, got {list(block)}"
                )
            require_integer("product-grr: cells of a block", size, 2, MAX_BLOCK_CELLS)
        self.layout  # noqa: B018 - validates the tables
        self.weights  # noqa: B018 - validates epsilon

    @classmethod
    def standard(cls, epsilon: str, cells: int) -> Self:
        return cls(epsilon, cells, (cells,), ((0,),), ((0,),))

    @cached_property
    def layout(self) -> JointTables:
        return JointTables(self.axes, self.tables)

    @cached_property
    def block_cells(self) -> tuple[int, ...]:
        return tuple(prod(self.axes[i] for i in block) for block in self.blocks)

    @cached_property
    def weights(self) -> tuple[int, ...]:
        """Weight of each block's true cell; any other cell has the weight 2^32."""
        d = len(self.axes)
        return tuple(share_weight(self.epsilon, len(block), d) for block in self.blocks)

    def probabilities(self, block: int) -> tuple[Fraction, Fraction]:
        """Return the exact probabilities of a block's true cell and of one other cell."""
        total = self.weights[block] + (self.block_cells[block] - 1) * OTHER
        return Fraction(self.weights[block], total), Fraction(OTHER, total)

    @property
    def width(self) -> int:
        return self.layout.width

    @property
    def columns(self) -> tuple[Column, ...]:
        return tuple(Column(f"x{b}", "int", size) for b, size in enumerate(self.block_cells))

    def perturb(self, values: NDArray[Any], randomness: Randomness) -> dict[str, NDArray[Any]]:
        return {
            f"x{b}": respond(cell, self.block_cells[b], self.weights[b], randomness)
            for b, cell in enumerate(self._truths(values))
        }

    def _truths(self, values: NDArray[Any]) -> Iterator[NDArray[np.int64]]:
        """Yield the cell of each block, of every record."""
        digits = digits_of(values, self.axes)
        for block in self.blocks:
            yield cell_of(digits, self.axes, block)

    def tally(self, reports: Reports, view: NDArray[Any] | None, views: int) -> Counts:
        digits: dict[int, NDArray[Any]] = {}
        for b, block in enumerate(self.blocks):
            codes = digits_of(reports[f"x{b}"], [self.axes[i] for i in block])
            digits.update(zip(block, codes, strict=True))
        return self.layout.count(digits, view, views)

    def estimate(self, counts: Counts, n: int) -> Floats:
        return self.table(counts, n, self.axes, range(len(self.axes)))

    def variance(self, n: int, frequencies: Floats | None = None) -> Floats:
        shape = self.axes
        f = np.full(shape, 1 / self.cells) if frequencies is None else np.asarray(frequencies)
        return noise_given_truth(f.reshape(shape), channels(self, range(len(shape))), n).reshape(-1)

    def covariance(self, n: int, frequencies: Floats) -> Covariance:
        """Return a covariance with noise that adds up to 0, because the inverse keeps the total.

        Its entries are exact if there is one block and all frequencies are equal.
        """
        return balanced_noise(self.variance(n, frequencies), n, frequencies)

    def table(
        self,
        counts: Counts,
        n: int,
        shape: Sequence[int],  # noqa: ARG002
        axes: Sequence[int],
    ) -> Floats:
        observed = self.layout.read(counts, axes)
        if n == 0:
            return np.zeros(observed.size)
        return unmix(observed / n, channels(self, axes)).ravel()

    def table_covariance(
        self, n: int, expected: Floats, shape: Sequence[int], axes: Sequence[int]
    ) -> Floats:
        """Return the exact covariance: reported cells of the table are multinomial."""
        factors = channels(self, axes)
        own = tuple(shape[i] for i in axes)
        reported = mix(expected.reshape(own), factors).ravel()
        unit = np.eye(len(reported)).reshape(*own, -1)
        inverse = unmix(unit, factors).reshape(len(reported), -1)
        return np.asarray(((inverse * reported) @ inverse.T - np.outer(expected, expected)) / n)

    def rarest(self, expected: Floats, shape: Sequence[int], axes: Sequence[int], /) -> float:
        own = tuple(shape[i] for i in axes)
        rate = mix(expected.reshape(own), channels(self, axes))
        return max(float(np.minimum(rate, 1.0 - rate).min()), 0.0)

    def channel(self) -> Channel:
        chances = [self.probabilities(b) for b in range(len(self.blocks))]
        truths = [cell.tolist() for cell in self._truths(np.arange(self.cells))]
        outputs = list(product(*(range(size) for size in self.block_cells)))
        return tuple(
            tuple(
                prod(
                    (chances[b][truths[b][x] != cell] for b, cell in enumerate(y)),
                    start=Fraction(1),
                )
                for y in outputs
            )
            for x in range(self.cells)
        )


def share_weight(epsilon: str, parts: int, of: int) -> int:
    """Return ``floor(exp(epsilon · parts / of) · 2^32)``, rounded down at every step.

    In lowest terms it is a power of the rounded-down weight of ``epsilon / divisor``: the realised
    loss is at most epsilon · parts / of.
    """
    common = gcd(parts, of)
    power, divisor = parts // common, of // common
    weight: int = exp_weight(epsilon, divisor) ** power >> WEIGHT_BITS * (power - 1)
    if weight > MAX_WEIGHT:
        raise PlanError(
            f"{parts} of {of} parts of epsilon {epsilon} are more than {MAX_PART} for one block: "
            "use a smaller epsilon"
        )
    return weight


def check_axes(name: str, cells: object, axes: Sequence[int]) -> None:
    if not axes or min(axes) < 2:
        raise PlanError(f"{name}.axes: every attribute needs at least 2 values")
    require_integer(f"{name}.cells", cells, 2, MAX_RECORD_CELLS - 1)
    if prod(axes) != cells:
        raise PlanError(f"{name}: the axes have {prod(axes):,} cells together, but cells={cells!r}")


def channels(mechanism: ProductGRR, attributes: Sequence[int]) -> tuple[AxisChannel, ...]:
    """Return the channel of a table over ascending ``attributes``, one factor per block."""
    factors = []
    for b, block in enumerate(mechanism.blocks):
        axes = tuple(j for j, i in enumerate(attributes) if i in block)
        if axes:
            p, q = mechanism.probabilities(b)
            cells = prod(mechanism.axes[attributes[j]] for j in axes)
            # Each cell of the table is a sum of this number of cells of the block.
            merged = mechanism.block_cells[b] // cells
            factors.append(AxisChannel(axes, cells, float(p - q), float(q * merged)))
    return tuple(factors)
