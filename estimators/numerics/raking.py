"""Raking (iterative proportional fitting): tables are scaled until they have given margins."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from calmstream.estimators.arrays import Floats


def rake(
    start: Floats, targets: Sequence[tuple[tuple[int, ...], Floats]], rounds: int = 6
) -> Floats:
    """Scale tables (batch, *shape) to each of several margins in turn, until they have all of them.

    Targets are ascending axes, and margins (batch or 1, *their shape). The result is nearest to the
    start in relative entropy. If no table has all, it is that of the last round, of sum 1 too.
    """
    axes = start.ndim - 1
    aligned = []
    for kept, wanted in targets:
        others = tuple(a + 1 for a in range(axes) if a not in kept)
        shape = [start.shape[a + 1] if a in kept else 1 for a in range(axes)]
        aligned.append((others, wanted.reshape([wanted.shape[0], *shape])))
    table = start
    for _ in range(rounds):
        missed = 0.0
        for others, wanted in aligned:
            found = table.sum(axis=others, keepdims=True)
            missed = max(missed, float(np.abs(found - wanted).max()))
            table = table * (wanted / np.where(found > 0.0, found, 1.0))
        if missed < 1e-6:
            break
    total = table.sum(axis=tuple(range(1, axes + 1)), keepdims=True)
    even = np.full(start.shape, 1.0 / start[0].size)
    return np.asarray(np.where(total > 0.0, table / np.where(total > 0.0, total, 1.0), even))


def outer(margins: Sequence[Floats]) -> Floats:
    """Return product tables: margins of shape (batch, r_i) give (batch, *r)."""
    table = np.ones(margins[0].shape[:1])
    for margin in margins:
        table = table[..., None] * margin.reshape(margin.shape[0], *[1] * (table.ndim - 1), -1)
    return table
