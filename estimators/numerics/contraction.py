"""Sums of the cells of a table: over groups of labels, axis by axis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from calmstream.estimators.arrays import Floats


def contract(table: Floats, members: Sequence[Floats]) -> Floats:
    """Sum the last axes of a table (..., r_1, .., r_k) over groups: shape (..., g_1, .., g_k).

    Per axis, ``members`` (g_i, r_i) is 1 where a group has a label.
    """
    first = table.ndim - len(members)
    out = table
    for axis, member in enumerate(members, start=first):
        if len(member) != member.shape[1]:
            out = np.moveaxis(np.tensordot(out, member, (axis, 1)), -1, axis)
        else:
            # As many groups as labels: at most another order.
            out = np.take(out, member.argmax(axis=1), axis=axis)
    return np.asarray(out, np.float64)


def contract_both(covariance: Floats, members: Sequence[Floats]) -> Floats:
    """Return the covariance (groups, groups) of sums, given that of the cells, row-major."""
    shape = [member.shape[1] for member in members]
    groups = int(np.prod([len(member) for member in members]))
    once = contract(covariance.reshape(-1, *shape), members).reshape(-1, groups)
    return contract(once.T.reshape(groups, *shape), members).reshape(groups, groups).T
