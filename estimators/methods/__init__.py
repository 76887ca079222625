"""Local methods: which attributes devices report on, and how tables follow from the counts.

`base` is the contract, `packing` what several designs share; docs/methods/ explains the methods.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, cast

from calmstream.common.errors import PlanError
from calmstream.estimators import plugins
from calmstream.estimators.methods.base import Follows, Method, Model

if TYPE_CHECKING:
    from calmstream.estimators.plan import Plan
    from calmstream.estimators.tally import Tally

GROUP = "calmstream.methods"
CENTRAL = "dp-marginals"
"""The method of the central model (`estimators.central`); no local plan can name it."""


def names() -> tuple[str, ...]:
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

    ``total``: with the counts of earlier plans that it follows; ``quick``: with less effort, at a
    few per cent more error, if the method has ``fit_quickly``.
    """
    method, own = get(plan.method), tallies[: plan.ordinary_groups]
    if total and isinstance(method, Follows):
        return method.fit_total(plan.ordinary, own)
    fit = getattr(method, "fit_quickly", method.fit) if quick else method.fit
    return cast("Model", fit(plan.ordinary, own))
