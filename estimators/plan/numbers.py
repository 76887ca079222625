"""Numbers in a plan document, in a form that every language reads and writes alike.

The digest of a plan depends on its bytes, so all implementations must write the same digits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

from calmstream.common.errors import PlanError

MAX_INTEGER = (1 << 53) - 1
"""Maximum absolute value of an integer in a plan: every JSON reader represents it exactly."""

_FEW = 8
"""Lists of at most this length are checked entry by entry, which is faster for short lists."""


def exact_numbers(value: Any, where: str) -> Any:
    """Return a value with numbers that all languages write alike.

    Fractions become decimal strings, because JSON libraries write them differently (1e16 or
    10000000000000000). Integers must be in the range that every reader represents exactly.
    """
    try:
        return _exact(value)
    except _InexactError as error:
        raise PlanError(f"{where}{''.join(reversed(error.steps))}: {error.what}") from None


class _InexactError(Exception):
    """A number that languages write differently."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what
        self.steps: list[str] = []


def _exact(value: Any) -> Any:
    """Return the value as :func:`exact_numbers` does; raise `_InexactError` instead."""
    if isinstance(value, list | tuple):
        return _exact_list(value)
    if isinstance(value, float):
        if not isfinite(value):
            raise _InexactError("expected a finite number")
        return float.__repr__(value)
    if isinstance(value, int):
        if abs(value) > MAX_INTEGER:
            raise _InexactError(f"expected an integer from -{MAX_INTEGER} to {MAX_INTEGER}")
        return value
    return _exact_object(value) if isinstance(value, Mapping) else value


def _exact_list(values: Sequence[Any]) -> list[Any]:
    """Return a list; long lists of integers or of strings are checked as a whole."""
    if len(values) > _FEW:
        kinds = set(map(type, values))
        integers = kinds == {int} and min(values) >= -MAX_INTEGER and max(values) <= MAX_INTEGER
        if integers or kinds <= {str}:
            return list(values)
    exact: list[Any] = []
    try:
        for item in values:
            exact.append(_exact(item))  # noqa: PERF401 - its length is the index of an error
    except _InexactError as error:
        error.steps.append(f"[{len(exact)}]")
        raise
    return exact


def _exact_object(items: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return a JSON object with exact numbers."""
    exact = {}
    for name, item in items.items():
        try:
            exact[name] = _exact(item)
        except _InexactError as error:
            error.steps.append(f".{name}")
            raise
    return exact


def as_number(value: object) -> object:
    """Read a fraction that a plan writes as a string; return anything else as it is."""
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value
