"""Proportions within each combination of given attributes, with standard errors.

They are computed from a published table, for ``calmstream watch --given`` and for users of the
library.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from calmstream.common.errors import InvalidInput
from calmstream.estimators.wire.snapshot import MarginalRecord


def conditional(record: MarginalRecord, given: Sequence[str]) -> MarginalRecord:
    """Return the proportions within each combination of the given attributes, which come first.

    A cell is r = x / (x + y), where x is the cell of the published table, and y the sum of the
    other cells of the same combination. Its standard error is of first order,
    sqrt(y² var(x) + x² var(y)) / (x + y)², as if cells were independent, because correlations are
    not published. It is at most 1. A combination without mass gets proportions 0 and standard
    errors 1.
    """
    names = record.attributes
    if not given or not set(given) < set(names) or len(set(given)) != len(given):
        raise InvalidInput(f"given {','.join(given)}: expected some, not all, of {','.join(names)}")
    order = [names.index(name) for name in given]
    order += [axis for axis in range(len(names)) if axis not in order]
    labels = tuple(record.labels[axis] for axis in order)
    shape = [len(values) for values in record.labels]
    combinations = int(np.prod([shape[axis] for axis in order[: len(given)]]))

    def by_combination(
        cells: tuple[float, ...],
    ) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
        return np.array(cells).reshape(shape).transpose(order).reshape(combinations, -1)

    x, variance = by_combination(record.table), by_combination(record.stderr) ** 2
    mass = x.sum(axis=1, keepdims=True)
    has_mass = mass > 0
    divisor = np.where(has_mass, mass, 1.0)
    variance_of_y = variance.sum(axis=1, keepdims=True) - variance
    error = np.sqrt((mass - x) ** 2 * variance + x**2 * variance_of_y) / divisor**2
    table = np.where(has_mass, x / divisor, 0.0)
    stderr = np.where(has_mass, np.minimum(error, 1.0), 1.0)
    return replace(
        record,
        attributes=tuple(names[axis] for axis in order),
        labels=labels,
        table=tuple(table.ravel().tolist()),
        stderr=tuple(stderr.ravel().tolist()),
        # The expected sum of squared errors, as for any table.
        noise_floor=float(np.square(stderr).sum()),
        flags=(*record.flags, "conditional", "approximate"),
    )
