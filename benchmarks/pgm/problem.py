"""The inputs of both sides of the comparison with Private-PGM, and our side of it.

A `Point` is a data set, its size and epsilon; a `Problem` one random repeat of it, drawn as in
`benchmarks.grid.cells`. Private-PGM gets the unbiased table and deviation of every view.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import cached_property
from math import sqrt
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from benchmarks.grid.cells import OURS, devices, targets_of, truths
from benchmarks.populations import first
from calmstream.estimators import methods
from calmstream.estimators.domain import Attributes, Domain
from calmstream.estimators.marginal import sse
from calmstream.estimators.methods.base import Request
from calmstream.estimators.methods.packing import Assigned, pack
from calmstream.estimators.noise_aware.design import oracle
from calmstream.estimators.noise_aware.statistics import cell_variance
from calmstream.estimators.numerics.covering import balanced
from calmstream.estimators.plan import Plan
from calmstream.estimators.tally import Tally
from calmstream.estimators.view import View
from calmstream.evaluation.population import collect, local_plan

Floats = NDArray[np.float64]

TARGET_SIZES = (2, 3, 6)  # numbers of attributes of a target

TARGETS = 50  # targets of each size

PLANNED_K = 3
"""Size of the marginals that the plan is made for. One fit then serves targets of all sizes."""

_NOISE = 2
"""Label of the seed of the noise; `benchmarks.grid.cells` uses 0 and 1 for targets and devices."""


@dataclass(frozen=True)
class Point:
    """One line of the results: a data set, its size, epsilon and the views."""

    dataset: str  # name of the data set in `benchmarks.populations`
    d: int  # number of its first attributes that are used
    epsilon: str  # privacy parameter of a report, as a decimal
    log_users: int  # base-2 logarithm of the number of devices
    # ``planned`` for the views that the noise-aware method plans, or ``four-way`` for 50 sets
    # of four attributes in which every attribute occurs about equally often
    views: str = "planned"

    @property
    def name(self) -> str:
        return f"{self.views}-{self.dataset}-d{self.d}-eps{self.epsilon}-n{self.log_users}"

    @property
    def users(self) -> int:
        return 1 << self.log_users

    @property
    def domain(self) -> Domain:
        table = first(self.dataset, self.d)
        assert table is not None
        return table.domain

    def plan(self) -> Plan:
        """Return the plan of the collection: the noise-aware method's, or one of four-way views."""
        request = Request(self.domain, self.epsilon, self.users, PLANNED_K)
        planned = local_plan(methods.get(OURS), request)
        if self.views == "planned":
            return planned
        share = 1  # all views get the same share of the devices
        assigned = []
        for view in balanced(self.d, 4, 50):
            mechanism, _ = oracle(self.epsilon, self.domain.size(view))
            assigned.append(Assigned(View(view), mechanism, share))
        return replace(planned, groups=pack(assigned, request.max_groups, separate=False))


@dataclass(frozen=True, eq=False)
class Measurement:
    """The estimate of the table of one view."""

    attributes: Attributes  # indices of the view's attributes, ascending
    table: Floats  # unbiased estimate of the share of devices in each cell, row-major
    deviation: float  # standard deviation of a cell of ``table``


@dataclass(frozen=True, eq=False)
class Problem:
    """One random repeat of a point."""

    point: Point
    plan: Plan
    tallies: tuple[Tally, ...]  # the counted reports, one for each group of the plan
    repeat: int  # number of the repeat, from 0; it sets the seeds

    @cached_property
    def measurements(self) -> tuple[Measurement, ...]:
        return tuple(
            Measurement(
                view.attributes,
                mechanism.estimate(counts, int(n)),
                sqrt(cell_variance(mechanism) / int(n)),
            )
            for group, mechanism, tally in zip(
                self.plan.groups, self.plan.mechanisms, self.tallies, strict=True
            )
            for view, n, counts in zip(group.views, tally.n, tally.counts, strict=True)
            if n > 0
        )

    @cached_property
    def targets(self) -> dict[int, tuple[Attributes, ...]]:
        return {k: targets_of(self.plan.domain, k, TARGETS) for k in TARGET_SIZES}

    def errors(self, answers: dict[int, list[Floats]]) -> dict[str, float]:
        """Return the mean squared error of a table, summed over cells, by size of the targets."""
        p = self.point
        return {
            str(k): float(
                np.mean(
                    [
                        sse(answer, truth)
                        for answer, truth in zip(
                            answers[k],
                            truths(p.dataset, self.plan.domain, p.users, self.repeat, asked),
                            strict=True,
                        )
                    ]
                )
            )
            for k, asked in self.targets.items()
            if k in answers
        }


def draw(point: Point, plan: Plan, repeat: int) -> Problem:
    """Draw the devices of a repeat, and their tallies from the mechanism's distribution."""
    codes = devices(point.dataset, point.d, point.users, repeat)
    seed = np.random.SeedSequence((_NOISE, crc32(point.name.encode()), repeat))
    return Problem(point, plan, tuple(collect(plan, codes, seed, exact=True)), repeat)


def ours(problem: Problem, sizes: tuple[int, ...] = TARGET_SIZES) -> dict[str, object]:
    """Return our errors, and processor seconds of the fit and 50 three-way answers."""
    started = time.process_time()
    model = methods.get(OURS).fit(problem.plan, problem.tallies)
    fitted = time.process_time()
    answers = {3: [model.marginal(target).table for target in problem.targets[3]]}
    done = time.process_time()
    for k in sizes:
        if k not in answers:
            answers[k] = [model.marginal(target).table for target in problem.targets[k]]
    return {"errors": problem.errors(answers), "fit": fitted - started, "answer": done - fitted}
