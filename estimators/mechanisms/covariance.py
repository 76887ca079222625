"""Covariance of an estimated table, in one form for all mechanisms.

It contains the noise of the mechanism and the multinomial sampling of n devices out of many,
``(diag(f) - f f^T) / n`` for frequencies f. docs/methods/mechanisms.md derives the functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from calmstream.estimators.arrays import Floats, Indices


@dataclass(frozen=True, slots=True, eq=False)
class Covariance:
    """Covariance of one view's estimated table: ``diag(diagonal) - factors factors^T``.

    ``diagonal``: shape (cells,), non-negative; ``factors``: shape (cells, few).
    """

    diagonal: Floats
    factors: Floats

    def dense(self) -> Floats:
        """Return it in full: shape (cells, cells)."""
        return np.asarray(np.diag(self.diagonal) - self.factors @ self.factors.T)

    def into(self, cell: Indices, cells: int) -> Covariance:
        """Return that of sums of cells: ``cell`` is where each is added, of so many, (cells,)."""
        factors = np.zeros((cells, self.factors.shape[1]))
        np.add.at(factors, cell, self.factors)
        return Covariance(np.bincount(cell, self.diagonal, cells).astype(np.float64), factors)

    def summed(self, shape: Sequence[int], axes: Sequence[int]) -> Floats:
        """Return that of the table over some axes, as of `Mechanism.table`, in full."""
        factors = np.stack([sum_out(f, shape, axes) for f in self.factors.T], axis=1)
        return Covariance(sum_out(self.diagonal, shape, axes), factors).dense()


def one_cell_covariance(p_minus_q: float, q: float, n: int, frequencies: Floats) -> Covariance:
    """Return the exact covariance where every report names exactly one cell.

    The counters are multinomial with probabilities ``q + (p - q) f``, so estimates add up to 1.
    ``frequencies``: shape (cells,), non-negative, sum 1, here and below.
    """
    gap = p_minus_q * np.sqrt(n)
    named = frequencies * p_minus_q + q
    return Covariance(named / gap**2, named[:, None] / gap)


def independent_noise(noise: Floats, n: int, frequencies: Floats) -> Covariance:
    """Return the covariance where the noise of different cells is uncorrelated.

    ``noise``: shape (cells,), variance of each cell's estimate given the data, here and below.
    """
    return Covariance(noise + frequencies / n, _sampled(n, frequencies))


def one_set_covariance(
    rates: tuple[float, float], pairs: tuple[float, float], n: int, frequencies: Floats
) -> Covariance:
    """Return the exact covariance where every report names a random set of cells.

    The probability that a set contains two given cells is ``pairs[1]``, and ``pairs[0]`` if one of
    them is the own cell. With ``r`` the probability that a set contains a cell, the counters have
    the covariance ``P(both) - r r^T``; the entries are linear in 1, f and f f^T.
    """
    q, gap = rates
    named = q + gap * frequencies
    basis = np.ones((len(frequencies), 2))
    basis[:, 1] = frequencies
    factors = basis @ _root_of_mixed(rates, pairs)
    diagonal = named * (1.0 - named) + np.square(factors).sum(axis=1)
    return Covariance(diagonal / (n * gap**2), factors / (gap * np.sqrt(n)))


@lru_cache(maxsize=256)
def _root_of_mixed(rates: tuple[float, float], pairs: tuple[float, float]) -> Floats:
    """Return a root of minus the entries off the diagonal, a quadratic form in (1, f): (2, 2)."""
    (q, gap), (own, other) = rates, pairs
    mixed = np.array([[q * q - other, q * gap - (own - other)], [0.0, gap * gap]])
    mixed[1, 0] = mixed[0, 1]
    values, vectors = np.linalg.eigh(mixed)
    root = np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)), np.float64)
    root.flags.writeable = False
    return root


def sum_out(values: Floats, shape: Sequence[int], axes: Sequence[int]) -> Floats:
    """Return the sums over all other axes of a row-major table: shape (cells of ``axes``,)."""
    others = tuple(i for i in range(len(shape)) if i not in axes)
    return np.asarray(values.reshape(tuple(shape)).sum(axis=others).ravel())


def summed_into(shape: Sequence[int], axes: Sequence[int]) -> NDArray[np.int64]:
    """Return for every cell the cell of the table over ``axes`` in which it is summed."""
    kept = [size if i in axes else 1 for i, size in enumerate(shape)]
    numbers = np.arange(int(np.prod(kept))).reshape(kept)
    return np.broadcast_to(numbers, tuple(shape)).ravel()


def spread_evenly(values: Floats, shape: Sequence[int], axes: Sequence[int]) -> Floats:
    """Return a table over all axes whose sums over the other axes are ``values``: (cells,)."""
    into = summed_into(shape, axes)
    return np.asarray(values[into] * (len(values) / len(into)))


def balanced_noise(noise: Floats, n: int, frequencies: Floats) -> Covariance:
    """Return the covariance where the noise of all cells adds up to exactly 0.

    Any two cells are taken to have the same noise in common. The sum of all variances is exact;
    single entries are exact if all frequencies are equal and the mechanism treats all cells alike.
    """
    cells, others = len(noise), len(noise) - 1
    common = np.full((cells, 1), np.sqrt(noise.mean() / others))
    whole = noise * cells / others + frequencies / n
    return Covariance(whole, np.concatenate([_sampled(n, frequencies), common], axis=1))


def _sampled(n: int, frequencies: Floats) -> Floats:
    """Return the factor of multinomial sampling, ``f / sqrt(n)``: shape (cells, 1)."""
    return np.asarray(frequencies[:, None] / np.sqrt(n))
