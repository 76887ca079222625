"""The test whether two sources have the same table, as far as both of them cover it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calmstream.estimators.analysis.distribution import tail
from calmstream.estimators.changes.basis import Floats
from calmstream.estimators.changes.evidence import SINGULAR, inverse
from calmstream.estimators.changes.fit import Fit


@dataclass(frozen=True, slots=True, eq=False)
class Homogeneity:
    """The result of the test."""

    statistic: float  # `Delta^T (V_1 + V_2)^+ Delta` over the common coefficients
    freedom: int
    p: float  # 1 without a common coefficient


def homogeneity(first: Fit, second: Fit) -> Homogeneity:
    """Test the difference of two fits of the same table from different devices."""
    shared = common(first.determined, second.determined)
    spread = shared.T @ (first.covariance + second.covariance) @ shared
    root = root_of_inverse(spread) @ shared.T
    statistic = float(np.square(root @ (first.theta - second.theta)).sum())
    freedom = len(root)
    return Homogeneity(statistic, freedom, tail(statistic, freedom) if freedom else 1.0)


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
