"""Tables from tables: raking to given margins, in batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Sequence

Floats = NDArray[np.float64]


def rake(
    start: Floats,
    targets: Sequence[tuple[tuple[int, ...], Floats]],
    rounds: int = 40,
    tolerance: float = 1e-6,
) -> Floats:
    """Scale tables to margins in turn: the nearest table in relative entropy, if there is one.

    Where the margins have no common table, the last round's is returned, which is valid too.

    Args:
        start: shape (batch, *shape), non-negative, sums to 1.
        targets: axes (of one table, ascending) and margins, shape (batch or 1, *their shape).
        rounds: most passes over all targets.
        tolerance: a pass that moves no margin by more ends it.

    Returns:
        Shape of ``start``, non-negative, sums to 1.
    """
    axes = start.ndim - 1
    laid = []
    for kept, wanted in targets:
        others = tuple(a + 1 for a in range(axes) if a not in kept)
        shape = [start.shape[a + 1] if a in kept else 1 for a in range(axes)]
        laid.append((others, wanted.reshape([wanted.shape[0], *shape])))
    table = start
    for _ in range(rounds):
        missed = 0.0
        for others, wanted in laid:
            found = table.sum(axis=others, keepdims=True)
            missed = max(missed, float(np.abs(found - wanted).max()))
            table = table * (wanted / np.where(found > 0.0, found, 1.0))
        if missed < tolerance:
            break
    total = table.sum(axis=tuple(range(1, axes + 1)), keepdims=True)
    even = np.full(start.shape, 1.0 / start[0].size)
    return np.asarray(np.where(total > 0.0, table / np.where(total > 0.0, total, 1.0), even))


def outer(margins: Sequence[Floats]) -> Floats:
    """Product tables: margins of shape (batch, r_i) give (batch, *r)."""
    table = np.ones(margins[0].shape[:1])
    for margin in margins:
        table = table[..., None] * margin.reshape(margin.shape[0], *[1] * (table.ndim - 1), -1)
    return table


def valid_pair(table: Floats, first: Floats, second: Floats) -> Floats:
    """A pair table without negative cells that keeps its margins.

    Cells below a thousandth of the product's are raised to it, then the table is raked.

    Args:
        table: shape (batch, r, q), sums to 1, may be negative.
        first: shape (batch, r), its row sums.
        second: shape (batch, q), its column sums.
    """
    product = first[:, :, None] * second[:, None, :]
    least = 1e-3 * product
    if (table >= 0.0).all():
        return table
    return rake(np.maximum(table, least), [((0,), first), ((1,), second)], 30)
