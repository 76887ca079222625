"""The list of mechanisms: finds and builds a mechanism by the name that it has in a plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from calmstream.common.errors import PlanError

if TYPE_CHECKING:
    from calmstream.estimators.mechanisms.base import Mechanism

_PLACES = {
    "grr": "grr:GRR",
    "oue": "oue:OUE",
    "sue": "sue:SUE",
    "olh": "olh:OLH",
    "hadamard-coefficient": "coefficient:HadamardCoefficient",
    "hadamard-response": "response:HadamardResponse",
    "subset-selection": "subset:SubsetSelection",
    "hadamard-sketch": "sketch:HadamardSketch",
    "product-grr": "product_grr:ProductGRR",
    "bloom-rr": "bloom_rr:BloomRR",
}
"""File and class of each mechanism."""


class _Mechanisms(Mapping[str, "type[Mechanism]"]):
    """Imports a mechanism when it is first named: a device loads only those of its plans."""

    def __getitem__(self, name: str) -> type[Mechanism]:
        file, _, kind = _PLACES[name].partition(":")
        return cast(
            "type[Mechanism]",
            getattr(import_module(f"calmstream.estimators.mechanisms.{file}"), kind),
        )

    def __iter__(self) -> Iterator[str]:
        return iter(_PLACES)

    def __len__(self) -> int:
        return len(_PLACES)


MECHANISMS: Mapping[str, type[Mechanism]] = _Mechanisms()
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
