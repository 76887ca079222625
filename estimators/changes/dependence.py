"""The test whether the dependence of a table's attributes changed, whatever their margins did.

Interactions move with the margins: those of independent attributes are ``theta_i theta_j``, with
theta_i the mean of phi_i, a function of attribute i (:mod:`.basis`). So the test is about the
*central* ones, ``C_S = E[product over i in S of (phi_i - theta_i)]`` for sets S of two and more
attributes, which are 0 if they are independent. Their covariance follows from that of theta to
first order, for each source at its own frequencies.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from calmstream.estimators.arrays import Floats, Indices
from calmstream.estimators.changes.basis import interactions, own_positions
from calmstream.estimators.changes.fit import Fit, Flags, root_of_inverse
from calmstream.estimators.numerics.distribution import tail

Shape = tuple[int, ...]


def dependence(first: Fit, second: Fit, shape: Shape) -> float | None:
    """Return the p-value of all central interactions that both cover; None without any."""
    rows = covered_rows(first.known & second.known, shape)
    if not len(rows):
        return None
    (one, spread_one), (other, spread_other) = (_central(f, shape, rows) for f in (first, second))
    root = root_of_inverse(spread_one + spread_other)
    return tail(float(np.square(root @ (one - other)).sum()), len(root)) if len(root) else 1.0


def covered_rows(known: Flags, shape: Shape) -> Indices:
    """Return the coefficients of the sets whose own and smaller interactions are all known."""
    whole = {s for s in interactions(len(shape)) if known[own_positions(shape, s)].all()}
    sets = [
        s
        for s in interactions(len(shape))
        if len(s) > 1
        and all(part in whole for size in range(1, len(s) + 1) for part in combinations(s, size))
    ]
    return np.concatenate([own_positions(shape, s) for s in sets] or [np.zeros(0, np.int64)])


def _central(fit: Fit, shape: Shape, rows: Indices) -> tuple[Floats, Floats]:
    values, slope = central(fit.theta, shape)
    chosen = slope[rows]
    return values[rows] - _bias(fit, shape)[rows], np.asarray(chosen @ fit.covariance @ chosen.T)


def central(theta: Floats, shape: Shape) -> tuple[Floats, Floats]:
    """Return all central interactions and their derivatives by theta, numbered as theta.

    Shapes (cells - 1,) and (cells - 1, cells - 1). Entries of single attributes are 0.
    """
    # Numbers the products as the cells, 0 the constant; theta, without it, numbers them one less.
    places = np.arange(len(theta) + 1).reshape(shape)
    change = np.ones((1, 1))
    for axis, labels in enumerate(shape):
        # From the functions (1, phi) of an attribute to (1, phi - theta).
        own = np.eye(labels)
        own[1:, 0] = -theta[own_positions(shape, (axis,))]
        change = np.asarray(np.kron(change, own))
    values = change @ np.concatenate([[1.0], theta])
    slope = change[:, 1:].copy()
    for axis, labels in enumerate(shape):
        # The mean that is subtracted varies too: it multiplies the product of all other factors.
        rest = places.take(0, axis=axis).ravel()
        for label, column in zip(range(1, labels), own_positions(shape, (axis,)), strict=True):
            slope[places.take(label, axis=axis).ravel(), column] -= values[rest]
    return values[1:], slope[1:]


def _bias(fit: Fit, shape: Shape) -> Floats:
    """Return the bias of C of pairs, (cells - 1,): minus the covariance of the estimated means."""
    out = np.zeros_like(fit.theta)
    for i, j in combinations(range(len(shape)), 2):
        left, right = own_positions(shape, (i,)), own_positions(shape, (j,))
        out[own_positions(shape, (i, j))] = -fit.covariance[np.ix_(left, right)].ravel()
    return out
