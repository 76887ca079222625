"""Local methods: which attributes devices report on, and how tables follow from the counts.

A method is found by its entry point in the group `GROUP`, under the name that plans use;
:mod:`.base` is the contract, which other packages implement too. A method designs the groups of a
plan (sets of devices that share a mechanism) with their views (what a device reports on), and fits
a model to the tallies (counts per view). `packing` contains the parts that several methods use.
``calmstream plan --method list`` lists all methods, docs/methods/ explains them, docs/concepts.md
the terms.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, cast

from calmstream.common.errors import PlanError
from calmstream.estimators import plugins
from calmstream.estimators.methods.base import Follows, Method, Model, Quick

if TYPE_CHECKING:
    from calmstream.estimators.plan import Plan
    from calmstream.estimators.tally import Tally

GROUP = "calmstream.methods"
CENTRAL = "dp-marginals"
"""The method of the central model (`estimators.central`); no local plan can name it."""


def names() -> tuple[str, ...]:
    """Return the registry names, sorted."""
    return tuple(sorted(plugins.found(GROUP)))


@cache
def get(name: str) -> Method:
    if name == CENTRAL:
        raise PlanError(
            f"method {CENTRAL} is central: raw records go to a trusted aggregator, see `calmstream "
            "central plan`; this command needs a local method"
        )
    if name not in plugins.found(GROUP):
        raise PlanError(f"unknown method {name!r}; there are {', '.join(names())}")
    return cast("Method", plugins.load(GROUP, name)())


def fit(plan: Plan, tallies: Sequence[Tally], *, total: bool = False, quick: bool = False) -> Model:
    """Fit the plan's method to tallies, one per group; hashed attributes are left out.

    Args:
        total: of all windows, so together with the counts of earlier plans that it follows.
        quick: with less effort, if the method can; the error is a few per cent larger.
    """
    method, own = get(plan.method), tallies[: plan.ordinary_groups]
    if total and isinstance(method, Follows):
        return method.fit_total(plan.ordinary, own)
    if quick and isinstance(method, Quick):
        return method.fit_quickly(plan.ordinary, own)
    return method.fit(plan.ordinary, own)
