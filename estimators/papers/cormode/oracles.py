"""Options of methods about the oracle that a device uses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calmstream.common.errors import PlanError
from calmstream.estimators.mechanisms.base import Mechanism
from calmstream.estimators.mechanisms.registry import standard

UNARY = ("sue", "oue")
"""Randomised response of every bit with epsilon / 2, and the probabilities of Wang et al., with
which the paper ran its experiments."""


def unary(parameters: Mapping[str, Any], epsilon: str, cells: int) -> Mechanism:
    """Return an oracle with a bit per cell; the parameter ``oracle`` is one of `UNARY`."""
    name = parameters.get("oracle", UNARY[0])
    if name not in UNARY:
        raise PlanError(f"parameter oracle must be one of {', '.join(UNARY)}, got {name!r:.40}")
    return standard(name, epsilon, cells)
