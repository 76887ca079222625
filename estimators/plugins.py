"""Finds what installed packages add, ours among them, by Python's entry points (CONTRIBUTING.md).

A package is imported when its name is first used, so that one that is broken harms no other.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from calmstream.common.errors import PlanError


@cache
def found(group: str) -> dict[str, tuple[EntryPoint, ...]]:
    """Return the entry points of a group by name; several packages can state the same name."""
    named: dict[str, tuple[EntryPoint, ...]] = {}
    for point in entry_points(group=group):
        others = named.get(point.name, ())
        if all(point.value != other.value for other in others):
            named[point.name] = (*others, point)
    return named


def load(group: str, name: str) -> Any:
    points = found(group).get(name, ())
    if len(points) > 1:
        packages = " and ".join(sorted(map(_package, points)))
        raise PlanError(f"{name!r} is stated by {packages}; remove one")
    if not points:
        raise PlanError(f"no installed package states {name!r}")
    try:
        return points[0].load()
    except Exception as error:  # a stranger's package may raise anything
        raise PlanError(
            f"{name!r} of the package {_package(points[0])} cannot be loaded: "
            f"{type(error).__name__}: {error}"
        ) from error


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else point.module
