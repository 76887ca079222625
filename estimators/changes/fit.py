"""Generalised least squares: a table's coefficients from all views of a source, and their test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calmstream.estimators.arrays import Floats
from calmstream.estimators.changes.evidence import SINGULAR, Evidence, inverse

Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """Estimated coefficients of a table; 0 in directions that the views do not determine."""

    theta: Floats  # (coefficients,)
    covariance: Floats  # (coefficients, coefficients)
    known: Flags  # (coefficients,): whether the views determine it
    determined: Floats  # (coefficients, rank): orthonormal combinations that they determine


def fit(pieces: Sequence[Evidence], coefficients: int) -> Fit:
    """Return the estimate of least variance, ``J^+ sum H^T S^+ z``, in O(coefficients^3)."""
    information = np.zeros((coefficients, coefficients))
    score = np.zeros(coefficients)
    for one in pieces:
        if one.design is None:
            information[np.ix_(one.places, one.places)] += one.precision
            score[one.places] += one.precision @ (one.z - one.offset)
        else:
            weighted = one.design.T @ one.precision
            information += weighted @ one.design
            score += weighted @ (one.z - one.offset)
    values, vectors = np.linalg.eigh(information)
    kept = values > SINGULAR * max(float(values[-1]), 0.0)
    determined = np.asarray(vectors[:, kept])
    spread = np.asarray((determined / values[kept]) @ determined.T)
    # A coefficient is known if its own direction is determined.
    known = np.square(determined).sum(axis=1) > 1.0 - np.sqrt(SINGULAR)
    return Fit(spread @ score, spread, known, determined)


def homogeneity(first: Fit, second: Fit) -> tuple[float, int]:
    """Return the statistic of the test that two fits are of one table, and its degrees of freedom.

    It is ``Delta^T (V_1 + V_2)^+ Delta`` over the coefficients that both determine.
    """
    shared = common(first.determined, second.determined)
    spread = shared.T @ (first.covariance + second.covariance) @ shared
    root = root_of_inverse(spread) @ shared.T
    return float(np.square(root @ (first.theta - second.theta)).sum()), len(root)


def common(one: Floats, other: Floats) -> Floats:
    """Return an orthonormal basis of the intersection of two spaces: shape (size, dimensions)."""
    left, cosines, _ = np.linalg.svd(one.T @ other, full_matrices=False)
    shared: Floats = one @ left[:, cosines > 1.0 - np.sqrt(SINGULAR)]
    return shared


def root_of_inverse(spread: Floats) -> Floats:
    """Return R with ``R^T R`` the pseudo-inverse of a covariance: shape (rank, size)."""
    if not len(spread):
        return np.zeros((0, 0))
    values, vectors = np.linalg.eigh(inverse(spread))
    kept = values > 1e-12 * max(float(values[-1]), 0.0)
    root: Floats = (vectors[:, kept] * np.sqrt(values[kept])).T
    return root
