"""Values of a local table as codes: numbers and lists of options, which can be texts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from calmstream.common.errors import DomainError
from calmstream.estimators.kinds import Number
from calmstream.estimators.randomness import Randomness


def number_values(column: Sequence[object]) -> NDArray[np.float64]:
    """Return the numbers of a column, shape (n,), float64; NaN for what is not a finite number."""
    values = np.array([_number(value) for value in column], np.float64)
    values[~np.isfinite(values)] = np.nan
    return values


def number_codes(
    kind: Number, other: int | None, column: Sequence[object], randomness: Randomness | None
) -> NDArray[np.int64]:
    """Return the codes of a column of numbers, shape (n,)."""
    values = number_values(column)
    unknown = np.isnan(values)
    if other is None and unknown.any():
        row = int(unknown.argmax())
        raise DomainError(f"row {row + 1}: {column[row]!r} is not a finite number")
    known = np.where(unknown, 0.0, values)
    if randomness is not None:
        codes = kind.codes(known, randomness)
    else:
        distinct, place = np.unique(known, return_inverse=True)
        codes = np.array([kind.code(value) for value in distinct.tolist()], np.int64)[place]
    return codes if other is None else np.where(unknown, other, codes)


def options_of(value: object) -> object:
    """Return the chosen options of a field: those of a text are separated by ``|``."""
    if isinstance(value, str):
        return tuple(filter(None, (part.strip() for part in value.split("|"))))
    return value


def _number(value: object) -> float:
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return np.nan
