"""Sums of cells over groups of labels, with their covariance from posterior draws.

A group is treated as a cell of a coarser table: its deviation is that of its sum over the draws,
and the rules of `intervals` apply to it. Interactions without any estimate sum to zero over every
attribute, so they matter less to groups than to cells.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from calmstream.estimators.noise_aware.arrays import Floats
from calmstream.estimators.noise_aware.tables.intervals import log_normal_stderr
from calmstream.estimators.numerics.contraction import contract

MAX_CROSSED = 1 << 9
"""Largest table of groups for which covariances of unmodelled interactions are formed."""


def of_draws(drawn: Floats, members: Sequence[Floats]) -> Floats:
    """Return the covariance of groups over draws (draws, *shape): shape (groups, groups)."""
    sums = contract(drawn, members).reshape(len(drawn), -1)
    away = sums - sums.mean(axis=0)
    return np.asarray(away.T @ away / len(away))


def of_interactions(
    margins: Sequence[Floats], scales: Sequence[float], size: Mapping[int, float]
) -> Floats:
    """Return the covariance of groups from random interactions: shape (groups, groups).

    The standardised interaction of a set S of attributes contributes ``v(S) product(K_i, i in S)
    product(M_i M_i^T, i not in S)`` with ``K = diag(M) - M M^T`` for the margins M of the groups.

    Args:
        margins: per attribute the masses of its groups.
        scales: per attribute, multiplies K.
        size: v by the number of attributes in S; orders that are absent have none.
    """
    cells = int(np.prod([len(margin) for margin in margins]))
    crossed = cells <= MAX_CROSSED
    symmetric: list[Floats] = [np.ones((1, 1))]
    for margin, scale in zip(margins, scales, strict=True):
        known = np.outer(margin, margin)
        own = scale * (np.diag(margin) - known)
        if not crossed:
            known, own = np.diag(known)[:, None], np.diag(own)[:, None]
        none = np.zeros_like(symmetric[0])
        with_own, without = [none, *symmetric], [*symmetric, none]
        symmetric = [
            np.kron(a, known) + np.kron(b, own) for a, b in zip(without, with_own, strict=True)
        ]
    total = np.zeros_like(symmetric[0])
    for order, variance in size.items():
        total += variance * symmetric[order]
    return total if crossed else np.diag(total[:, 0])


def with_errors(covariance: Floats, stderr: Floats) -> Floats:
    """Return the covariance with the same correlations and these standard errors."""
    own = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    scale = stderr / np.where(own > 0.0, own, 1.0)
    found = covariance * np.outer(scale, scale)
    # A cell that no draw moves has its error alone.
    np.fill_diagonal(found, np.square(stderr))
    return np.asarray(found)


def log_normal(table: Floats, covariance: Floats) -> Floats:
    """Return the covariance with standard errors that reach up to log-normal intervals'."""
    deviation = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    return with_errors(covariance, log_normal_stderr(table, deviation))
