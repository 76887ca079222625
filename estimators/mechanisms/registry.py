"""Finds and builds a mechanism by the name that it has in a plan; see :mod:`..plugins`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from importlib import import_module
from typing import Any, cast

from calmstream.common.errors import PlanError
from calmstream.estimators import plugins
from calmstream.estimators.mechanisms.base import Mechanism

GROUP = "calmstream.mechanisms"
_OURS = {
    "bloom-rr": "papers.lopub.bloom_rr:BloomRR",
    "grr": "mechanisms.grr:GRR",
    "hadamard-coefficient": "mechanisms.coefficient:HadamardCoefficient",
    "hadamard-response": "mechanisms.response:HadamardResponse",
    "hadamard-sketch": "papers.cormode.sketch:HadamardSketch",
    "olh": "mechanisms.olh:OLH",
    "oue": "mechanisms.unary:OUE",
    "product-grr": "papers.castell.product_grr:ProductGRR",
    "subset-selection": "mechanisms.subset:SubsetSelection",
    "sue": "mechanisms.unary:SUE",
}
"""Module and class of each mechanism of this package. They are no entry points, because an
application on a device may be frozen without its packages' metadata."""


def names() -> list[str]:
    """Return the names of all mechanisms that are installed, ascending."""
    return sorted(_OURS.keys() | plugins.found(GROUP).keys())


def standard(name: str, epsilon: str, cells: int) -> Mechanism:
    """Return the named mechanism with its recommended parameters, for planning."""
    return _kind(name).standard(epsilon, cells)


def build(document: Mapping[str, Any], epsilon: str) -> Mechanism:
    """Build the mechanism that `Mechanism.to_json` describes."""
    if not isinstance(document, Mapping):
        raise PlanError(f"a mechanism is an object with name and cells, got {document!r}")
    parameters = dict(document)
    name = parameters.pop("name", None)
    kind = _kind(name)
    required = {field.name for field in fields(kind)} - {"epsilon"}
    for field in sorted(map(str, set(parameters) - required)):
        raise PlanError(f"mechanism {name!r} has no field {field!r}")
    for field in sorted(required - set(parameters)):
        raise PlanError(f"mechanism {name!r} needs the field {field!r}")
    return kind(epsilon=epsilon, **parameters)


def _kind(name: object) -> type[Mechanism]:
    """Import a mechanism when it is first named: a device loads only those of its plans."""
    if isinstance(name, str) and name in _OURS:
        module, _, kind = _OURS[name].partition(":")
        found = getattr(import_module(f"calmstream.estimators.{module}"), kind)
    elif isinstance(name, str) and name in plugins.found(GROUP):
        found = plugins.load(GROUP, name)
    else:
        raise PlanError(f"unknown mechanism {name!r}; there are {', '.join(names())}")
    return cast("type[Mechanism]", found)
