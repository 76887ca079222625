"""The error of reconstruction: interactions of attributes that no view holds together.

Maximum entropy takes them for those that the smaller tables imply. The pairs that views do hold
show how far real ones differ: by the mean square of their standardised interactions, less its
noise. An interaction of one order more is at most half as large. docs/methods/calm.md has the
formulas.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from math import comb

import numpy as np

from calmstream.estimators.arrays import Floats

USUAL, SPREAD = 0.026, 0.063
"""Mean and deviation of the mean square standardised interaction of pairs before any is measured.
These are of the square of a log-normal scale with median 0.1 and within a factor of 2 of it in two
of three cases, as `_learnt` of the noise-aware design has it."""

DECAY = 0.25  # largest ratio of that mean square from one order to the next
MAX_ORDER = 4  # highest order that counts; those above are below 1/64 of the pairs'


def pair_size(measured: Iterable[tuple[Floats, float]]) -> float:
    """Return the mean square standardised interaction of pairs, shrunk by its noise; at least 0.

    ``measured`` are unbiased tables (r_i, r_j), and the variance of a direction of the interaction.
    """
    signal = scale = noise = 0.0
    for table, variance in measured:
        rows, columns = table.sum(axis=1), table.sum(axis=0)
        free = (len(rows) - 1) * (len(columns) - 1)
        signal += float(np.square(table - np.outer(rows, columns)).sum()) - free * variance
        scale += float(np.outer(_spread(rows), _spread(columns)).sum())
        noise += 2.0 * free * variance**2
    known = SPREAD**2 * scale**2 / (SPREAD**2 * scale**2 + noise) if scale > 0.0 else 0.0
    return max((1.0 - known) * USUAL + (known * signal / scale if known else 0.0), 0.0)


def variance(margins: Sequence[Floats], missing: Sequence[float], size: float) -> Floats:
    """Return the variance of each cell from interactions that no view holds: shape (cells,).

    The standardised interaction of a set S adds ``size product(m_i (1 - m_i), i in S)
    product(m_i^2, i not in S)`` for the margins m.
    """
    sums = [np.ones(1)] + [np.zeros(1)] * (len(missing) - 1)  # over sets of each order
    for margin in margins:
        own, out = _spread(margin), np.square(margin)
        lower = [np.zeros_like(sums[0]), *sums]
        sums = [
            np.outer(same, out).ravel() + np.outer(one_less, own).ravel()
            for same, one_less in zip(sums, lower, strict=False)
        ]
    total = np.zeros_like(sums[0])
    for order in range(2, len(missing)):
        total += size * DECAY ** (order - 2) * missing[order] * sums[order]
    return total


def missing_shares(attributes: Sequence[int], views: Iterable[frozenset[int]]) -> list[float]:
    """Return the share of sets of these attributes that no view holds, by order up to 4."""
    highest = min(len(attributes), MAX_ORDER)
    held: list[set[tuple[int, ...]]] = [set() for _ in range(highest + 1)]
    for common in {tuple(i for i in attributes if i in view) for view in views}:
        for order in range(2, min(len(common), highest) + 1):
            held[order].update(combinations(common, order))
    sets = [comb(len(attributes), order) for order in range(highest + 1)]
    return [0.0, 0.0, *(1.0 - len(held[o]) / sets[o] for o in range(2, highest + 1))]


def _spread(margin: Floats) -> Floats:
    return np.maximum(margin * (1.0 - margin), 0.0)
