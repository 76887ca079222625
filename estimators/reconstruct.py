"""Maximum entropy over a query's cells, given some of its projections (METHODS §3)."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Sequence

Floats = NDArray[np.float64]

MAX_ROUNDS = 300
TOLERANCE = 1e-9


def maximum_entropy(
    shape: tuple[int, ...], projections: Sequence[tuple[tuple[int, ...], Floats]]
) -> Floats:
    """The distribution of largest entropy with the given projections.

    Iterative proportional fitting from the uniform table: scale the table to each projection in
    turn until none is missed by more than ``TOLERANCE`` in any cell, or ``MAX_ROUNDS`` rounds.
    (Projections that agree with one another may still have no common table; the last round's table
    is then returned, which is a distribution all the same.)

    Args:
        shape: cardinalities of the query's attributes.
        projections: ascending axes of the query with a distribution over them, row-major; they
            agree on shared axes. None of them makes the answer uniform.

    Returns:
        Shape (cells,), non-negative, sum 1.

    Cost: O(rounds · projections · cells); one round when no two projections share an axis.
    """
    table = np.full(prod(shape), 1.0 / prod(shape))
    targets = [(_cells(shape, axes), np.asarray(wanted).ravel()) for axes, wanted in projections]
    for _ in range(MAX_ROUNDS if len(targets) > 1 else len(targets)):
        missed = 0.0
        for into, wanted in targets:
            found = np.bincount(into, table, wanted.size)
            missed = max(missed, float(np.abs(found - wanted).max()))
            # A cell that was scaled to 0 stays 0; where that contradicts a projection nothing can
            # be scaled up, so the division is guarded and the final normalisation sees to the sum.
            table *= (wanted / np.where(found > 0.0, found, 1.0))[into]
        if missed < TOLERANCE:
            break
    total = float(table.sum())
    return table / total if total > 0.0 else np.full(prod(shape), 1.0 / prod(shape))


def _cells(shape: tuple[int, ...], axes: tuple[int, ...]) -> NDArray[np.intp]:
    """The cell of the projection that every cell of the query falls into: shape (cells,)."""
    own = np.arange(prod(shape[i] for i in axes), dtype=np.intp)
    laid_out = own.reshape([r if i in axes else 1 for i, r in enumerate(shape)])
    return np.broadcast_to(laid_out, shape).ravel()
