"""Make plans for the tests of estimators in the same way as the product makes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from calmstream.estimators import methods, planning
from calmstream.estimators.domain import Attribute, Domain
from calmstream.estimators.mechanisms.registry import standard
from calmstream.estimators.methods.base import Design, Request
from calmstream.estimators.plan import MAX_GROUPS, Group, Guarantee, Plan
from calmstream.estimators.tally import Tally
from calmstream.estimators.view import View

PAIR_GROUP = Group(standard("grr", "1", 4), (View((0, 1)),), (1,))
"""The group of `pair_plan`: the first two attributes by randomised response."""
COLLECTED = [name for name in methods.names() if not methods.get(name).baseline]
"""The methods whose plans devices can report under."""
NEEDED: Mapping[str, Mapping[str, Any]] = {"rr-clusters": {"clusters": [[0, 1]]}}
"""Parameters of methods that cannot do without."""
CRASHES: list[dict[str, Any]] = [
    {"name": "region", "labels": ["EU", "US", "other"], "other": "other"},
    {"name": "theme", "labels": ["dark", "light"]},
    {"name": "crashed", "labels": ["no", "yes"]},
]
"""A data dictionary."""


def mixed_domain(*cardinalities: int) -> Domain:
    """Return a domain of attributes a0, a1, … with labels 0, 1, … ."""
    return Domain(
        tuple(
            Attribute(f"a{j}", tuple(str(c) for c in range(r))) for j, r in enumerate(cardinalities)
        )
    )


def draft(
    domain: Domain,
    epsilon: str = "1",
    users: int = 10_000,
    k: int = 2,
    method: str = "calm",
    parameters: Mapping[str, Any] | None = None,
    max_groups: int = MAX_GROUPS,
    **changes: Any,
) -> tuple[Plan, Design]:
    """Return a plan and its design; ``changes`` replace the defaults of `planning.draft`."""
    given = NEEDED.get(method, {}) if parameters is None else parameters
    request = Request(domain, epsilon, users, k, given, max_groups)
    defaults: dict[str, Any] = {
        "name": "test",
        "purpose": "testing",
        "owner": "tests",
        "lineage": "0" * 32,
        "start": 0,
        "window": 60,
        "windows": 1,
        "grace": 5,
        "skew": 5,
        "partitions": 1,
        "guarantee": Guarantee(),
    }
    return planning.draft(method, request, **(defaults | changes))


def put(*path: Any) -> Callable[[dict[str, Any]], None]:
    """Return a change of a document: the value at a path, whose last item is the value."""

    def change(document: dict[str, Any]) -> None:
        *way, last, value = path
        place: Any = document
        for step in way:
            place = place[step]
        place[last] = value

    return change


def exact_tallies(plan: Plan, table: Sequence[float], reports: int) -> list[Tally]:
    """Return the expected counters, rounded, for a true distribution over the whole domain.

    Only for mechanisms whose estimate is affine in the counters of each cell.
    """
    truth = np.asarray(table, np.float64).reshape(plan.domain.cardinalities)
    tallies = []
    for group, mechanism in zip(plan.groups, plan.mechanisms, strict=True):
        zero = mechanism.estimate(np.zeros(mechanism.width, np.int64), 1)
        slope = mechanism.estimate(np.ones(mechanism.width, np.int64), 1) - zero
        counts = []
        for view in group.views:
            others = tuple(i for i in range(len(plan.domain)) if i not in view.attributes)
            frequencies = truth.sum(axis=others).ravel()
            counts.append(np.rint(reports * (frequencies - zero) / slope).astype(np.int64))
        n = np.full(len(group.views), reports, np.int64)
        tallies.append(Tally(n, np.stack(counts)))
    return tallies


def pair_plan(name: str, start: int, window: int, windows: int, **changes: Any) -> Plan:
    """Return a plan of CALM over four bits, in which two groups report the first two.

    Times are in seconds; ``changes`` replace other fields of this plan.
    """
    fields: dict[str, Any] = {
        "purpose": "tests",
        "owner": "tests",
        "lineage": "0" * 32,
        "domain": Domain.binary(4),
        "epsilon": "1",
        "k": 2,
        "method": "calm",
        "parameters": {},
        "groups": (PAIR_GROUP,) * 2,
        "users": 1000,
        "marginals": ((0, 1),),
        "partitions": 1,
    }
    times = {"start": start, "window": window, "expires": start + windows * window}
    return Plan(name=name, **(fields | times | changes))
