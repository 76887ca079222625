"""Mechanisms by the name they have in a plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from estimators.errors import PlanError
from estimators.mechanisms.grr import GRR
from estimators.mechanisms.oue import OUE

if TYPE_CHECKING:
    from estimators.mechanisms.base import Mechanism

MECHANISMS: Mapping[str, type[Mechanism]] = {m.name: m for m in (GRR, OUE)}
"""Every mechanism that can stand in a plan."""


def spec(mechanism: Mechanism) -> dict[str, Any]:
    """The mechanism as it stands in a plan: name, cells and every parameter; epsilon is apart."""
    return {"name": mechanism.name, "cells": mechanism.cells, **mechanism.parameters()}


def build(document: Mapping[str, Any], epsilon: str) -> Mechanism:
    """Inverse of :func:`spec`.

    Args:
        document: ``{"name": ..., "cells": ..., **parameters}``. Parameters that the mechanism can
            choose itself may be left out; a plan should not, so that it stays complete.
        epsilon: decimal string, the whole loss of one report.

    Raises:
        PlanError: an unknown mechanism or field, a missing field, or a value out of range.
    """
    if not isinstance(document, Mapping):
        raise PlanError(f"a mechanism is an object with name and cells, got {document!r}")
    fields = dict(document)
    name = fields.pop("name", None)
    if not isinstance(name, str) or name not in MECHANISMS:
        raise PlanError(f"unknown mechanism {name!r}; there are {', '.join(sorted(MECHANISMS))}")
    if "cells" not in fields:
        raise PlanError(f"mechanism {name!r} lacks its field 'cells'")
    kind = MECHANISMS[name]
    known = set(kind.__dataclass_fields__) - {"epsilon"}  # type: ignore[attr-defined]
    unknown = sorted(map(str, set(fields) - known))
    if unknown:
        raise PlanError(f"mechanism {name!r} has no field {unknown[0]!r}")
    return kind(epsilon=epsilon, **fields)  # type: ignore[call-arg]
