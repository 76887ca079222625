"""The inputs of both sides of the comparison with Private-PGM: views, tallies, targets, truths.

Devices, targets and true tables are those of the grid (`benchmarks.grid.cells`). Private-PGM gets
the unbiased table of every view and the standard deviation of its cells, which are what the
noise-aware method's own statistics start from (`estimators.noise_aware.input.statistics`).
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
from calmstream.evaluation.population import collect
from calmstream.evaluation.rounds import local_plan
from estimators import methods
from estimators.domain import Attributes, Domain
from estimators.marginal import sse
from estimators.methods.shared.packing import Assigned, pack
from estimators.noise_aware.design.allocation import oracle
from estimators.noise_aware.input.statistics import cell_variance
from estimators.numerics.covering import balanced
from estimators.plan import Plan
from estimators.plan.request import Request
from estimators.tally import Tally
from estimators.view import View

Floats = NDArray[np.float64]

TARGET_SIZES = (2, 3, 6)
TARGETS = 50
PLANNED_K = 3
"""The k of the plan. One fit of Private-PGM then serves targets of all sizes."""

_NOISE = 2


@dataclass(frozen=True)
class Point:
    """One data set, number of attributes, epsilon and number of devices.

    Attributes:
        dataset, d, epsilon, log_users: as in `benchmarks.grid.cells.Cell`.
        views: ``planned`` (the noise-aware plan's own) or ``four-way`` (50 balanced sets of four).
    """

    dataset: str
    d: int
    epsilon: str
    log_users: int
    views: str = "planned"

    @property
    def name(self) -> str:
        """The end of its name in the results."""
        return f"{self.views}-{self.dataset}-d{self.d}-eps{self.epsilon}-n{self.log_users}"

    @property
    def users(self) -> int:
        """The number of devices."""
        return 1 << self.log_users

    @property
    def domain(self) -> Domain:
        """The domain of the data set's first d attributes."""
        table = first(self.dataset, self.d)
        assert table is not None
        return table.domain

    def plan(self) -> Plan:
        """Return the plan of the collection."""
        request = Request(self.domain, self.epsilon, self.users, PLANNED_K)
        own = local_plan(methods.get(OURS), request)
        if self.views == "planned":
            return own
        assigned = [
            Assigned(View(view), oracle(self.epsilon, self.domain.size(view))[0], 1)
            for view in balanced(self.d, 4, 50)
        ]
        return replace(own, groups=pack(assigned, request.max_groups, separate=False))


@dataclass(frozen=True, eq=False)
class Measurement:
    """The estimate of one view.

    Attributes:
        attributes: ascending.
        table: unbiased shares, row-major.
        deviation: standard deviation of a cell.
    """

    attributes: Attributes
    table: Floats
    deviation: float


@dataclass(frozen=True, eq=False)
class Problem:
    """One repeat of a point."""

    point: Point
    plan: Plan
    tallies: tuple[Tally, ...]
    repeat: int

    @cached_property
    def measurements(self) -> tuple[Measurement, ...]:
        """The estimates of all views with reports."""
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
        """The target sets by size."""
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
        }


def draw(point: Point, plan: Plan, repeat: int) -> Problem:
    """Draw the repeat's devices and their tallies, from their exact distribution."""
    codes = devices(point.dataset, point.d, point.users, repeat)
    seed = np.random.SeedSequence((_NOISE, crc32(point.name.encode()), repeat))
    return Problem(point, plan, tuple(collect(plan, codes, seed, exact=True)), repeat)


def ours(problem: Problem) -> dict[str, object]:
    """Return our errors, and processor seconds of the fit and 50 three-way answers."""
    started = time.process_time()
    model = methods.get(OURS).fit(problem.plan, problem.tallies)
    fitted = time.process_time()
    answers = {3: [model.marginal(target).table for target in problem.targets[3]]}
    done = time.process_time()
    for k in TARGET_SIZES:
        if k not in answers:
            answers[k] = [model.marginal(target).table for target in problem.targets[k]]
    return {"errors": problem.errors(answers), "fit": fitted - started, "answer": done - fitted}
