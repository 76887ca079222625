"""Local methods: which attributes devices report on, and how tables follow from the counts.

A method is found by its entry point in the group `GROUP`, under the name that plans use;
:mod:`.base` is the contract, which other packages implement too. A method designs the groups of a
plan (sets of devices that share a mechanism) with their views (what a device reports on), and fits
a model to the tallies (counts per view). `shared` contains the parts that several methods use.
``calmstream plan --method list`` lists all methods, docs/methods/ explains them, docs/concepts.md
the terms.
"""

from __future__ import annotations

from functools import cache
from typing import cast

from calmstream.common.errors import PlanError
from calmstream.estimators import plugins
from calmstream.estimators.methods.base import Method

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
