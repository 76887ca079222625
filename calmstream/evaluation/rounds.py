"""Simulated collection by one plan, or by a pilot and a second plan, for evaluations.

A pilot is a first plan for a part of the devices, from whose results some methods learn what the
other devices should report.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from calmstream.estimators import methods, planning
from calmstream.estimators.methods import hashed_views
from calmstream.estimators.methods.base import Follows, Piloted
from calmstream.estimators.plan import Plan
from calmstream.estimators.plan.request import Request
from calmstream.evaluation.population import collect

if TYPE_CHECKING:
    from collections.abc import Callable

    from calmstream.estimators.domain import Codes
    from calmstream.estimators.methods.base import Design, Method, Model


LINEAGE = "0" * 32
"""The lineage of plans that are used for evaluation."""


def local_plan(method: Method, request: Request, design: Design | None = None) -> Plan:
    """Return a plan that is used for evaluation only, with one window."""
    planning.check(request)
    design = hashed_views.design(method, request) if design is None else design
    return Plan(
        name="evaluation",
        purpose="evaluation on a local table",
        owner="evaluate",
        lineage=LINEAGE,
        domain=request.domain,
        epsilon=request.epsilon,
        k=request.k,
        method=method.name,
        parameters=design.parameters,
        groups=design.groups,
        start=0,
        expires=60,
        window=60,
        grace=0,
        skew=0,
        users=request.users,
        marginals=((0,),),
    )


def two_rounds(
    method: Method, pilot: Plan, codes: Codes, noise: np.random.SeedSequence, *, exact: bool
) -> Callable[[], Model]:
    """Collect from a pilot's devices, then from the others by a plan that follows from it."""
    mixed = codes[np.random.default_rng(noise.spawn(1)[0]).permutation(len(codes))]
    first, second = noise.spawn(2)
    pilot_codes, others = mixed[: pilot.users], mixed[pilot.users :]
    pilot_tallies = collect(pilot, pilot_codes, first, exact=exact)
    if isinstance(method, Piloted):
        parameters = method.learn(pilot.domain, methods.get(method.pilot).fit(pilot, pilot_tallies))
    else:
        assert isinstance(method, Follows)
        parameters = method.follow(pilot, pilot_tallies)
    request = Request(pilot.domain, pilot.epsilon, len(others), pilot.k, parameters)
    plan = local_plan(method, request)
    tallies = collect(plan, others, second, exact=exact)
    fit = method.fit_total if isinstance(method, Follows) else method.fit
    return partial(fit, plan, tallies)
