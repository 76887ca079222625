"""Conditional views of a published table: P(A | B) with its error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from estimators.errors import InvalidInput
from estimators.wire.snapshot import MarginalRecord


def conditional(record: MarginalRecord, given: Sequence[str]) -> MarginalRecord:
    """Return the proportions within each combination of the given attributes, which come first.

    A cell is r = x / (x + y), where y is the rest of its combination. Its standard error is of
    first order, sqrt(y² var(x) + x² var(y)) / (x + y)², and takes the cells as independent, because
    correlations are not published. It is at most 1. A combination without mass gets proportions 0
    and standard errors 1.

    Args:
        record: a published table.
        given: some, not all, of its attributes.

    Raises:
        InvalidInput: ``given`` is not such a choice.
    """
    names = record.attributes
    if not given or not set(given) < set(names) or len(set(given)) != len(given):
        raise InvalidInput(f"given {','.join(given)}: expected some, not all, of {','.join(names)}")
    order = [names.index(name) for name in given]
    order += [axis for axis in range(len(names)) if axis not in order]
    labels = tuple(record.labels[axis] for axis in order)
    shape = [len(each) for each in record.labels]
    blocks = int(np.prod([shape[axis] for axis in order[: len(given)]]))

    def arranged(cells: tuple[float, ...]) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
        return np.array(cells).reshape(shape).transpose(order).reshape(blocks, -1)

    x, variance = arranged(record.table), arranged(record.stderr) ** 2
    mass = x.sum(axis=1, keepdims=True)
    there = mass > 0
    safe = np.where(there, mass, 1.0)
    rest = variance.sum(axis=1, keepdims=True) - variance
    error = np.sqrt((mass - x) ** 2 * variance + x**2 * rest) / safe**2
    table = np.where(there, x / safe, 0.0)
    stderr = np.where(there, np.minimum(error, 1.0), 1.0)
    return replace(
        record,
        attributes=tuple(names[axis] for axis in order),
        labels=labels,
        table=tuple(table.ravel().tolist()),
        stderr=tuple(stderr.ravel().tolist()),
        noise_floor=float(np.square(stderr).sum()),
        flags=(*record.flags, "conditional"),
    )
