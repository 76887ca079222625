"""The list of mechanisms: finds and builds a mechanism by the name that it has in a plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from calmstream.common.errors import PlanError
from calmstream.estimators.mechanisms.bloom_rr import BloomRR
from calmstream.estimators.mechanisms.coefficient import HadamardCoefficient
from calmstream.estimators.mechanisms.grr import GRR
from calmstream.estimators.mechanisms.olh import OLH
from calmstream.estimators.mechanisms.oue import OUE
from calmstream.estimators.mechanisms.product_grr import ProductGRR
from calmstream.estimators.mechanisms.response import HadamardResponse
from calmstream.estimators.mechanisms.sketch import HadamardSketch
from calmstream.estimators.mechanisms.subset import SubsetSelection
from calmstream.estimators.mechanisms.sue import SUE

if TYPE_CHECKING:
    from calmstream.estimators.mechanisms.base import Mechanism

_KINDS: tuple[type[Mechanism], ...] = (
    GRR,
    OUE,
    SUE,
    OLH,
    HadamardCoefficient,
    HadamardResponse,
    SubsetSelection,
    HadamardSketch,
    ProductGRR,
    BloomRR,
)

MECHANISMS: Mapping[str, type[Mechanism]] = {kind.name: kind for kind in _KINDS}
"""Every mechanism that a plan can name."""


def spec(mechanism: Mechanism) -> dict[str, Any]:
    """Return the mechanism as in a plan: name, cells and parameters, without epsilon."""
    return {"name": mechanism.name, "cells": mechanism.cells, **mechanism.parameters()}


def standard(name: str, epsilon: str, cells: int) -> Mechanism:
    """Return the named mechanism with its recommended parameters, for planning.

    Raises:
        PlanError: an unknown name, or an epsilon or a number of cells out of range.
    """
    return _kind(name).standard(epsilon, cells)


def build(document: Mapping[str, Any], epsilon: str) -> Mechanism:
    """Build the mechanism that :func:`spec` describes.

    Args:
        document: ``{"name": ..., "cells": ..., **parameters}``. All parameters are required, so
            that a plan does not depend on the defaults of a later version.
        epsilon: decimal string, the whole loss of one report.

    Raises:
        PlanError: an unknown mechanism or field, a missing field, or a value out of range.
    """
    if not isinstance(document, Mapping):
        raise PlanError(f"a mechanism is an object with name and cells, got {document!r}")
    parameters = dict(document)
    name = parameters.pop("name", None)
    kind = _kind(name)
    required = {field.name for field in fields(kind)} - {"epsilon"}  # type: ignore[arg-type]
    for field in sorted(map(str, set(parameters) - required)):
        raise PlanError(f"mechanism {name!r} has no field {field!r}")
    for field in sorted(required - set(parameters)):
        raise PlanError(f"mechanism {name!r} needs the field {field!r}")
    return kind(epsilon=epsilon, **parameters)  # type: ignore[call-arg]


def _kind(name: object) -> type[Mechanism]:
    if not isinstance(name, str) or name not in MECHANISMS:
        raise PlanError(f"unknown mechanism {name!r}; there are {', '.join(sorted(MECHANISMS))}")
    return MECHANISMS[name]
