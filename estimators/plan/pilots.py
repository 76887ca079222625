"""Counts of earlier plans (pilots) in the parameters of a plan, and their use in its totals.

These count perturbed reports, so their use costs no more privacy (post-processing). A running total
is fitted as if all groups belonged to one plan, with weights by inverse variance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calmstream.common.errors import PlanError
from calmstream.estimators.domain import Domain
from calmstream.estimators.mechanisms.base import Mechanism
from calmstream.estimators.plan.document import read_groups
from calmstream.estimators.plan.group import Group
from calmstream.estimators.plan.plan import Plan
from calmstream.estimators.tally import Tally

MAX_COUNTERS = 1 << 18  # of earlier plans in a plan: about 2 MB of its document, on devices too
MAX_VIEW_CELLS = 1 << 12  # of a view of an earlier plan, all of which are read


@dataclass(frozen=True, slots=True)
class PooledPilots:
    """Groups of several plans together."""

    domain: Domain
    k: int
    groups: tuple[Group, ...]

    @property
    def mechanisms(self) -> tuple[Mechanism, ...]:
        return tuple(group.mechanism for group in self.groups)


CollectionPlan = Plan | PooledPilots
"""What an estimation needs of a plan: what was collected."""


@dataclass(frozen=True, slots=True, eq=False)
class Earlier:
    """One earlier plan."""

    plan: str  # Its digest, 64 hexadecimal digits
    epsilon: str  # Of one of its reports, decimal string
    groups: tuple[Group, ...]  # What it collected; all views are of kind ``cell``
    tallies: tuple[Tally, ...]  # Its counts, one per group

    @property
    def reports(self) -> int:
        return sum(tally.reports for tally in self.tallies)

    def to_json(self) -> dict[str, Any]:
        return {
            "plan": self.plan,
            "epsilon": self.epsilon,
            "groups": [group.to_json() for group in self.groups],
            "tallies": [tally.to_json() for tally in self.tallies],
        }


def read_earlier(parameters: Any, domain: Domain) -> tuple[Earlier, ...]:
    entries = parameters.get("pilots", [])
    if not isinstance(entries, list):
        raise PlanError("parameter pilots: expected a list")
    found = tuple(_read(e, f"parameter pilots[{i}]", domain) for i, e in enumerate(entries))
    check_size(found)
    return found


def check_size(earlier: Sequence[Earlier]) -> None:
    counters = sum(tally.counts.size for one in earlier for tally in one.tallies)
    if counters > MAX_COUNTERS:
        raise PlanError(
            f"the pilots keep {counters:,} counters; at most {MAX_COUNTERS:,} go into a plan"
        )


def _read(entry: object, where: str, domain: Domain) -> Earlier:
    fields = {"plan", "epsilon", "groups", "tallies"}
    if not isinstance(entry, dict) or set(entry) != fields:
        raise PlanError(f"{where}: expected an object with {', '.join(sorted(fields))}")
    if not all(isinstance(entry[name], str) for name in ("plan", "epsilon")):
        raise PlanError(f"{where}: plan and epsilon are strings")
    groups = read_groups(entry["groups"], f"{where}.groups", entry["epsilon"])
    tallies = entry["tallies"]
    if not isinstance(tallies, list) or len(tallies) != len(groups):
        raise PlanError(f"{where}.tallies: expected a list, one for each group")
    counted = []
    for g, (group, document) in enumerate(zip(groups, tallies, strict=True)):
        _check(group, domain, f"{where}.groups[{g}]")
        try:
            counted.append(Tally.from_json(document, len(group.views), group.mechanism.width))
        except ValueError as error:
            raise PlanError(f"{where}.tallies[{g}]: {error}") from None
    return Earlier(entry["plan"], entry["epsilon"], groups, tuple(counted))


def _check(group: Group, domain: Domain, where: str) -> None:
    mechanism = group.mechanism
    for view in group.views:
        try:
            view.check(domain)
        except PlanError as error:
            raise PlanError(f"{where}: of another domain: {error}") from None
        sign = view.kind == "parity" and len(view.attributes) == 1
        if not (view.kind == "cell" or sign) or mechanism.cells > MAX_VIEW_CELLS:
            raise PlanError(f"{where}: a pilot has tables of at most {MAX_VIEW_CELLS:,} cells")
        if view.cells(domain) != mechanism.cells:
            raise PlanError(
                f"{where}: of another domain: {mechanism.cells} cells, the view over "
                f"{list(view.attributes)} has {view.cells(domain)} here"
            )
    if mechanism.estimate(np.zeros(mechanism.width, np.int64), 1).shape != (mechanism.cells,):
        raise PlanError(f"{where}: mechanism {mechanism.name} estimates no table of its cells")


def pool(
    plan: CollectionPlan, tallies: Sequence[Tally], earlier: Sequence[Earlier]
) -> tuple[PooledPilots, list[Tally]]:
    groups = sum((one.groups for one in earlier), plan.groups)
    pooled = PooledPilots(plan.domain, plan.k, groups)
    return pooled, [*tallies, *(tally for one in earlier for tally in one.tallies)]


def after(
    plan: Plan, tallies: Sequence[Tally], carried: tuple[Earlier, ...]
) -> tuple[Earlier, ...]:
    """Return the pilots of a plan that follows this one: those it carried, and this plan."""
    own = Earlier(plan.digest, plan.epsilon, plan.groups, tuple(tallies))
    if not own.reports:
        raise PlanError(f"plan {plan.name}: nothing is counted yet, so there is nothing to learn")
    for group in plan.groups:
        _check(group, plan.domain, f"plan {plan.name}")
    found = (*carried, own)
    check_size(found)
    return found
