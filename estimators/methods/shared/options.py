"""Strict reading of the parameters of a method, as a plan states them."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

from calmstream.common.errors import PlanError
from calmstream.estimators.plan.numbers import as_number


def only_parameters(method: str, parameters: Mapping[str, Any], *known: str) -> None:
    """Check that all parameters are ``known`` to the method."""
    unknown = sorted(set(parameters) - set(known))
    if unknown:
        has = f"has {', '.join(known)}" if known else "has none"
        raise PlanError(f"method {method} {has}, not the parameter {unknown[0]!r}")


def number_parameter(
    parameters: Mapping[str, Any], name: str, default: float, low: float, high: float
) -> float:
    """Read a number from low to high, or the string that a plan writes for it."""
    value = as_number(parameters.get(name, default))
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise PlanError(f"parameter {name} must be a number, got {value!r}")
    if not low <= value <= high:
        raise PlanError(f"parameter {name} must lie between {low:g} and {high:g}, got {value!r}")
    return float(value)
