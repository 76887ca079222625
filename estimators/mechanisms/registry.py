"""Mechanisms by the name they have in a plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from estimators.errors import PlanError
from estimators.mechanisms.bloom_rr import BloomRR
from estimators.mechanisms.coefficient import HadamardCoefficient
from estimators.mechanisms.grr import GRR
from estimators.mechanisms.olh import OLH
from estimators.mechanisms.oue import OUE
from estimators.mechanisms.product_grr import ProductGRR
from estimators.mechanisms.response import HadamardResponse
from estimators.mechanisms.sketch import HadamardSketch
from estimators.mechanisms.subset import SubsetSelection
from estimators.mechanisms.sue import SUE

if TYPE_CHECKING:
    from estimators.mechanisms.base import Mechanism

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
"""Every mechanism that can stand in a plan."""


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
        document: ``{"name": ..., "cells": ..., **parameters}``, every parameter stated: a plan may
            not depend on what a later version recommends.
        epsilon: decimal string, the whole loss of one report.

    Raises:
        PlanError: an unknown mechanism or field, a missing field, or a value out of range.
    """
    if not isinstance(document, Mapping):
        raise PlanError(f"a mechanism is an object with name and cells, got {document!r}")
    given = dict(document)
    name = given.pop("name", None)
    kind = _kind(name)
    known = {field.name for field in fields(kind)} - {"epsilon"}  # type: ignore[arg-type]
    for field in sorted(map(str, set(given) - known)):
        raise PlanError(f"mechanism {name!r} has no field {field!r}")
    for field in sorted(known - set(given)):
        raise PlanError(f"mechanism {name!r} lacks its field {field!r}")
    return kind(epsilon=epsilon, **given)  # type: ignore[call-arg]


def _kind(name: object) -> type[Mechanism]:
    if not isinstance(name, str) or name not in MECHANISMS:
        raise PlanError(f"unknown mechanism {name!r}; there are {', '.join(sorted(MECHANISMS))}")
    return MECHANISMS[name]
