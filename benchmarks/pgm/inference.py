"""A faster inference for Private-PGM where it has to compute the whole joint table.

The package sums over all cells for one maximal view after another. This computes the same sums for
all together: by Walsh-Hadamard transforms of bits, otherwise through a few larger tables. Only the
order of summation changes; the solvers, their objective and the number of steps are the package's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial, reduce
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import mbi
import numpy as np
from mbi.marginal_loss import calculate_l2_lipschitz_from_metadata
from numpy.typing import NDArray

if TYPE_CHECKING:
    from benchmarks.pgm.problem import Measurement
    from calmstream.estimators.domain import Attributes

Array = Any  # A jax array

Floats = NDArray[np.float64]
EXACT = jax.lax.Precision.HIGHEST


@partial(jax.tree_util.register_dataclass, data_fields=["values"], meta_fields=["domain"])
@dataclass(frozen=True)
class Stacked:
    """Potentials or tables of all maximal views in one array, with the package's operations."""

    domain: mbi.Domain  # the package's domain
    values: Array  # shape (cells of all maximal views,), one view after another

    def __add__(self, other: Stacked) -> Stacked:
        return Stacked(self.domain, self.values + other.values)

    def __sub__(self, other: Stacked) -> Stacked:
        return Stacked(self.domain, self.values - other.values)

    def __mul__(self, factor: Array) -> Stacked:
        return Stacked(self.domain, self.values * factor)

    __rmul__ = __mul__

    def dot(self, other: Stacked) -> Array:
        return jnp.vdot(self.values, other.values)

    @property
    def cliques(self) -> tuple[tuple[str, ...], ...]:
        """Return one clique for all views, because one array holds them all."""
        return (self.domain.attributes,)

    def expand(self, _: object) -> Stacked:
        """Return the object unchanged: it holds all views already."""
        return self


@dataclass(frozen=True)
class Warm:
    """The starting point of a solver, in the form that the package expects."""

    potentials: Stacked  # the potentials at the start


class Cliques:
    """Views, arranged for inference over the joint table; solvers compile for one such object."""

    def __init__(self, cardinalities: tuple[int, ...], views: tuple[Attributes, ...]) -> None:
        self.cardinalities = cardinalities
        self.views = views
        self.maximal = [a for a in views if not any(set(a) < set(b) for b in views)]
        sizes = [self._size(a) for a in self.maximal]
        self.starts = np.concatenate([[0], np.cumsum(sizes)]).astype(int)

    def _size(self, attributes: Attributes) -> int:
        return int(np.prod([self.cardinalities[i] for i in attributes], dtype=int))

    @cached_property
    def length(self) -> int:
        return int(self.starts[-1])

    @cached_property
    def domain(self) -> mbi.Domain:
        return mbi.Domain([f"a{i:02d}" for i in range(len(self.cardinalities))], self.cardinalities)

    @cached_property
    def binary(self) -> bool:
        return set(self.cardinalities) == {2}

    def marginals(
        self, potentials: Stacked, total: Array = 1.0, *, constraints: tuple[()] = ()
    ) -> Stacked:
        """Return the maximal views' tables under these potentials; they sum to ``total``."""
        del constraints
        logs = self.spread(potentials.values)
        table = jax.nn.softmax(logs.ravel()).reshape(logs.shape) * total
        return Stacked(potentials.domain, self.gather(table))

    def spread(self, values: Array) -> Array:
        return self._spread_bits(values) if self.binary else self._spread_tables(values)

    def gather(self, table: Array) -> Array:
        """Return the maximal views' tables of a joint table, one after another."""
        return self._gather_bits(table) if self.binary else self._gather_tables(table)

    # If all attributes are binary, a table is the transform of its coefficients.

    @cached_property
    def _by_size(self) -> dict[int, tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Positions in the array and coefficients: shape (views, 2^size) both, by size of view."""
        d = len(self.cardinalities)
        by_size: dict[int, tuple[list[Floats], list[Floats]]] = {}
        # ``starts`` has one entry more than there are views: the end of the last one.
        for attributes, start in zip(self.maximal, self.starts, strict=False):
            size = len(attributes)
            cells = np.arange(1 << size)
            coefficient = sum(
                ((cells >> (size - 1 - j)) & 1) << (d - 1 - i) for j, i in enumerate(attributes)
            )
            positions, coefficients = by_size.setdefault(size, ([], []))
            positions.append(start + cells)
            coefficients.append(coefficient)
        return {size: (np.array(a), np.array(b)) for size, (a, b) in by_size.items()}

    def _transform(self, coefficients: Array) -> Array:
        """Return the Walsh-Hadamard transform, four attributes at a time."""
        d, table = len(self.cardinalities), coefficients
        for start in range(0, d, 4):
            bits = min(4, d - start)
            front = table.reshape(1 << bits, -1)
            table = jnp.matmul(hadamard(bits), front, precision=EXACT).T
        return table.reshape(self.cardinalities)

    def _spread_bits(self, values: Array) -> Array:
        coefficients = jnp.zeros(1 << len(self.cardinalities), values.dtype)
        for size, (where, which) in self._by_size.items():
            own = jnp.matmul(values[where], hadamard(size), precision=EXACT) / (1 << size)
            coefficients = coefficients.at[which].add(own)
        return self._transform(coefficients)

    def _gather_bits(self, table: Array) -> Array:
        coefficients = self._transform(table.ravel()).ravel()
        out = jnp.zeros(self.length, table.dtype)
        for size, (where, which) in self._by_size.items():
            own = jnp.matmul(coefficients[which], hadamard(size), precision=EXACT)
            out = out.at[where].set(own / (1 << size))
        return out

    # Otherwise neighbouring attributes form pairs (0, 1), (2, 3), ... A view is a part of the table
    # over all pairs that it touches, and there are far fewer such tables than views.

    @cached_property
    def _wholes(self) -> dict[tuple[int, ...], list[int]]:
        """Unions of pairs of neighbouring attributes, and the maximal views in each."""
        members: dict[tuple[int, ...], list[int]] = {}
        d = len(self.cardinalities)
        for v, attributes in enumerate(self.maximal):
            pairs = sorted({i // 2 for i in attributes})
            whole = tuple(i for p in pairs for i in (2 * p, 2 * p + 1) if i < d)
            members.setdefault(whole, []).append(v)
        return members

    def _spread_tables(self, values: Array) -> Array:
        total = jnp.zeros(self.cardinalities, values.dtype)
        for whole, members in self._wholes.items():
            part = jnp.zeros([self.cardinalities[i] for i in whole], values.dtype)
            for v in members:
                own = values[self.starts[v] : self.starts[v + 1]]
                part = part + own.reshape(self._broadcast(self.maximal[v], whole))
            total = total + part.reshape(self._broadcast(whole, range(len(self.cardinalities))))
        return total

    def _gather_tables(self, table: Array) -> Array:
        parts: dict[int, Array] = {}
        axes = range(len(self.cardinalities))
        for whole, members in self._wholes.items():
            part = table.sum(axis=tuple(i for i in axes if i not in whole))
            for v in members:
                out = [a for a, i in enumerate(whole) if i not in self.maximal[v]]
                parts[v] = part.sum(axis=tuple(out)).ravel()
        return jnp.concatenate([parts[v] for v in range(len(self.maximal))])

    def _broadcast(self, attributes: Sequence[int], over: Sequence[int]) -> list[int]:
        """Return the shape in which a table over ``attributes`` adds to one over ``over``."""
        return [self.cardinalities[i] if i in attributes else 1 for i in over]

    @cached_property
    def readings(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The cells whose sum is each measured number, from the smallest view that holds it."""
        cells, numbers, first = [], [], 0
        for view in self.views:
            holding = [v for v, a in enumerate(self.maximal) if set(view) <= set(a)]
            v = min(holding, key=lambda v: self._size(self.maximal[v]))
            shape = [self.cardinalities[i] for i in self.maximal[v]]
            code = np.unravel_index(np.arange(self._size(self.maximal[v])), shape)
            own = [code[self.maximal[v].index(i)] for i in view]
            number = np.ravel_multi_index(own, [self.cardinalities[i] for i in view])
            cells.append(np.arange(self.starts[v], self.starts[v + 1]))
            numbers.append(first + number)
            first += self._size(view)
        return np.concatenate(cells), np.concatenate(numbers)

    def loss(self, marginals: Stacked, data: tuple[Array, Array]) -> Array:
        """Return half the sum of squared differences from the measured numbers."""
        cells, numbers = self.readings
        fitted = jnp.zeros(data[0].shape, marginals.values.dtype)
        fitted = fitted.at[numbers].add(marginals.values[cells])
        gap = (fitted - data[0]) / data[1]
        return 0.5 * jnp.vdot(gap, gap)


@lru_cache(maxsize=4)
def cliques_of(cardinalities: tuple[int, ...], views: tuple[Attributes, ...]) -> Cliques:
    return Cliques(cardinalities, views)


def hadamard(bits: int) -> Floats:
    step = np.array([[1.0, 1.0], [1.0, -1.0]])
    return np.asarray(reduce(np.kron, [step] * bits, np.ones((1, 1))))


def estimator_inputs(
    cliques: Cliques, measurements: Sequence[Measurement], users: int
) -> dict[str, Any]:
    """Return a solver's arguments: squared loss, its Lipschitz constant, and a start at zero."""
    named = [
        mbi.LinearMeasurement(
            m.table, tuple(f"a{i:02d}" for i in m.attributes), users * m.deviation
        )
        for m in measurements
    ]
    values = np.concatenate([users * m.table for m in measurements])
    deviations = np.concatenate([np.full(m.table.size, users * m.deviation) for m in measurements])
    return {
        "loss_fn": mbi.MarginalLossFn(
            (cliques.domain.attributes,),
            cliques.loss,
            (jnp.asarray(values), jnp.asarray(deviations)),
            calculate_l2_lipschitz_from_metadata(cliques.domain, named),
        ),
        "known_total": float(users),
        "warm_start": Warm(Stacked(cliques.domain, jnp.zeros(cliques.length))),
    }


def joint(cliques: Cliques, potentials: Stacked) -> Array:
    """Return the joint table under these potentials, in shares: shape (cardinalities)."""
    logs = cliques.spread(potentials.values)
    return jax.nn.softmax(logs.ravel()).reshape(logs.shape)
