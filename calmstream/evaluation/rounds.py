"""Collection in one round or in two, for evaluations."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from calmstream.evaluation.population import collect
from estimators import methods, planning
from estimators.methods.base import Follows, Piloted
from estimators.plan import Plan
from estimators.plan.request import Request

if TYPE_CHECKING:
    from collections.abc import Callable

    from estimators.domain import Codes
    from estimators.methods.base import Design, Method, Model


def local_plan(method: Method, request: Request, design: Design | None = None) -> Plan:
    """Return a plan for evaluation only: one window, and defaults for all but the design.

    Args:
        method: makes the design, unless there is one already.
        request: what is wanted.
        design: the method's, for this very request.
    """
    planning.check(request)
    design = method.design(request) if design is None else design
    return Plan(
        name="evaluation",
        purpose="evaluation on a local table",
        owner="evaluate",
        lineage="0" * 32,
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
    """Collect from a pilot's devices, then from all others by a plan that the pilot determines.

    Args:
        method: one that learns from a pilot (`Piloted`, `Follows`).
        pilot: plan of the pilot; its ``users`` devices report in the first round.
        codes: shape (devices, attributes); more devices than the pilot asks.
        noise: seed of everything random.
        exact: as in `collect`.

    Returns:
        A function that estimates a model from both rounds, which are complete.
    """
    mixed = codes[np.random.default_rng(noise.spawn(1)[0]).permutation(len(codes))]
    first, second = noise.spawn(2)
    asked, others = mixed[: pilot.users], mixed[pilot.users :]
    counted = collect(pilot, asked, first, exact=exact)
    if isinstance(method, Piloted):
        learnt = method.learn(pilot.domain, methods.get(method.pilot).fit(pilot, counted))
    else:
        assert isinstance(method, Follows)
        learnt = method.follow(pilot, counted)
    plan = local_plan(method, Request(pilot.domain, pilot.epsilon, len(others), pilot.k, learnt))
    tallies = collect(plan, others, second, exact=exact)
    fit = method.fit_total if isinstance(method, Follows) else method.fit
    return partial(fit, plan, tallies)
