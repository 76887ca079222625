"""Covariance of an estimated table, in one form for all mechanisms.

A table over L cells that is estimated from n reports has the covariance
``diag(diagonal) - factors factors^T``. It contains the noise of the mechanism and the sampling of
n devices out of many, which is multinomial: ``(diag(f) - f f^T) / n`` for frequencies f.

Each mechanism picks the function here that fits how its reports are made
(`Mechanism.covariance`). `docs/methods/mechanisms.md` derives the three of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Covariance:
    """Covariance of one view's estimated table: ``diag(diagonal) - factors factors^T``.

    Attributes:
        diagonal: shape (cells,), non-negative.
        factors: shape (cells, few).
    """

    diagonal: Floats
    factors: Floats

    @property
    def interaction(self) -> float:
        """Mean variance of a cell, apart from the part that the table's total (1) determines."""
        return float(self.diagonal.mean())


def one_cell_covariance(p_minus_q: float, q: float, n: int, frequencies: Floats) -> Covariance:
    """Return the exact covariance where every report names exactly one cell.

    The counters themselves are multinomial with probabilities ``q + (p - q) f``, so the estimates
    always add up to 1.

    Args:
        p_minus_q: probability of naming the own cell minus that of naming one other cell.
        q: probability of naming one given other cell.
        n: reports, at least 1.
        frequencies: shape (cells,), non-negative, sum 1.
    """
    gap = p_minus_q * np.sqrt(n)
    named = frequencies * p_minus_q + q
    return Covariance(named / gap**2, named[:, None] / gap)


def independent_noise(noise: Floats, n: int, frequencies: Floats) -> Covariance:
    """Return the covariance where the noise of different cells is uncorrelated.

    Args:
        noise: shape (cells,), variance of each cell's estimate given the data.
        n: reports, at least 1.
        frequencies: shape (cells,), non-negative, sum 1.
    """
    return Covariance(noise + frequencies / n, _sampled(n, frequencies))


def balanced_noise(noise: Floats, n: int, frequencies: Floats) -> Covariance:
    """Return the covariance where the noise of all cells adds up to exactly 0.

    Any two cells are taken to have the same noise in common. The sum of all variances is exact;
    single entries are exact if all frequencies are equal and the mechanism treats all cells alike.

    Args:
        noise: shape (cells,), variance of each cell's estimate given the data.
        n: reports, at least 1.
        frequencies: shape (cells,), non-negative, sum 1.
    """
    cells = len(noise)
    others = cells - 1
    common = np.full((cells, 1), np.sqrt(noise.mean() / others))
    whole = noise * cells / others + frequencies / n
    return Covariance(whole, np.concatenate([_sampled(n, frequencies), common], axis=1))


def _sampled(n: int, frequencies: Floats) -> Floats:
    """Return the factor of multinomial sampling, ``f / sqrt(n)``: shape (cells, 1)."""
    factor: Floats = frequencies[:, None] / np.sqrt(n)
    return factor
