"""One round of questions or two, asked of devices that are at hand, as an evaluation does."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from calmstream.population import collect
from estimators import methods, planning
from estimators.methods.base import Follows, Piloted
from estimators.plan import Plan

if TYPE_CHECKING:
    from collections.abc import Callable

    from estimators.domain import Codes
    from estimators.methods.base import Design, Method, Model, Request


def local_plan(method: Method, request: Request, design: Design | None = None) -> Plan:
    """A plan that is never sent: one window, everything but the design at its simplest.

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
    method: Method,
    request: Request,
    codes: Codes,
    noise: np.random.SeedSequence,
    share: float,
    *,
    law: bool,
) -> Callable[[], Model]:
    """Ask a pilot's devices first, and all others what it taught to ask: nobody is asked twice.

    Args:
        method: one that learns from a pilot (`Piloted`, `Follows`).
        request: what is wanted of all devices together, without a pilot.
        codes: shape (devices, attributes); at least two devices.
        noise: seed of everything random.
        share: of the devices in the pilot, above 0 and below 1.
        law: as in `collect`.

    Returns:
        Both rounds are over; how to make a model of them.
    """
    mixed = codes[np.random.default_rng(noise.spawn(1)[0]).permutation(len(codes))]
    asked = max(1, int(share * len(codes)))
    first, second = noise.spawn(2)
    teacher = methods.get(method.pilot) if isinstance(method, Piloted) else method
    pilot = local_plan(teacher, replace(request, users=asked))
    counted = collect(pilot, mixed[:asked], first, law=law)
    if isinstance(method, Piloted):
        learnt = method.learn(request.domain, teacher.fit(pilot, counted))
    else:
        assert isinstance(method, Follows)
        learnt = method.follow(pilot, counted)
    parameters = {**learnt, **request.parameters}
    plan = local_plan(method, replace(request, users=len(codes) - asked, parameters=parameters))
    tallies = collect(plan, mixed[asked:], second, law=law)
    fit = method.fit_total if isinstance(method, Follows) else method.fit
    return partial(fit, plan, tallies)
