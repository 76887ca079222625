"""Numbers in a plan document, in a form that every language reads and writes alike.

The digest of a plan depends on its bytes, so all implementations must write the same digits.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

from calmstream.common.errors import PlanError

MAX_INTEGER = (1 << 53) - 1  # in a plan: every JSON reader represents it exactly
_FEW = 8  # longer lists of integers are checked as a whole


def exact_numbers(value: Any, where: str) -> Any:
    """Return a value with numbers that all languages write alike: fractions as decimal strings."""
    if isinstance(value, list | tuple):
        integers = len(value) > _FEW and set(map(type, value)) == {int}
        if integers and min(value) >= -MAX_INTEGER and max(value) <= MAX_INTEGER:
            return list(value)
        return [exact_numbers(item, f"{where}[{i}]") for i, item in enumerate(value)]
    if isinstance(value, Mapping):
        return {name: exact_numbers(item, f"{where}.{name}") for name, item in value.items()}
    if isinstance(value, float):
        if not isfinite(value):
            raise PlanError(f"{where}: expected a finite number")
        return float.__repr__(value)
    if isinstance(value, int) and abs(value) > MAX_INTEGER:
        raise PlanError(f"{where}: expected an integer from -{MAX_INTEGER} to {MAX_INTEGER}")
    return value


def as_number(value: object) -> object:
    """Read a fraction that a plan writes as a string; return anything else as it is."""
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value
