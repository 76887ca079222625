"""Measures methods on a local table: devices are drawn from it, and their true tables compared."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import comb
from typing import Literal, Protocol, runtime_checkable

import numpy as np

from calmstream.common.errors import InvalidInput
from calmstream.estimators import methods as registry
from calmstream.estimators import planning
from calmstream.estimators.arrays import Floats
from calmstream.estimators.domain import Attributes, Codes
from calmstream.estimators.marginal import (
    Z95,
    Marginal,
    inside,
    largest_error,
    sse,
    total_variation,
)
from calmstream.estimators.mechanisms.base import Reports
from calmstream.estimators.methods.base import Follows, Method, Model, Request
from calmstream.estimators.plan import Plan
from calmstream.estimators.randomness import SeededRandomness
from calmstream.evaluation.population import (
    Study,
    check_memory,
    collect,
    local_plan,
    true_tables,
    two_rounds,
)
from calmstream.evaluation.ranges import RangeQuestions

MAX_TARGET_CELLS = 1 << 20  # of a marginal that is measured; it limits time and memory
PILOT_SHARE = 0.1  # default share of the devices for the pilot of a method that needs one
_TARGETS, _RANGES = 0, 3  # labels of independent generators


@runtime_checkable
class ReadsReports(Protocol):
    """A method that needs every report: no small statistic of a stream suffices."""

    def fit_reports(self, plan: Plan, reports: Reports) -> Model:
        """Fit the model to the reports of a plan with one group and one view."""


@dataclass(frozen=True, slots=True)
class Result:
    """The mean errors of a method at one epsilon, over k-way marginals (targets) and repeats."""

    dataset: str
    method: str
    epsilon: float
    k: int  # attributes of a target
    d: int  # attributes of a record
    n: int  # devices that were drawn in each repeat
    targets: int  # fewer than requested if there are not as many
    repeats: int
    tallies: str  # ``devices`` or ``law``, see `evaluate`
    sse_mean: float  # sum over cells of the squared error
    sse_stderr: float | None  # its standard error over the repeats
    sse_uniform: float
    tv_mean: float  # total variation distance
    avd_mean: float  # largest absolute error of a cell
    coverage: float  # share of the true cells in the 95 % intervals
    points: float  # ± in points, in which 95 % of the shares lie if their errors are normal
    collect_seconds: float
    estimate_seconds: float
    ranges: dict[str, float] | None = None


def evaluate(
    study: Study,
    *,
    dataset: str,
    tallies: Literal["devices", "law"],
    pilot: float = 0.0,
    ranges: int = 0,
) -> Iterator[Result]:
    """Evaluate every method at every epsilon, in that order; yield results one by one.

    Targets, the devices of every repeat and the seeds of their noise are the same for all methods
    and epsilons, so that the results can be compared pairwise. With ``devices`` every record is
    perturbed, with ``law`` the counts are drawn from their exact distribution.
    """
    exact, domain, k = tallies == "law", study.table.domain, study.k
    if domain.hashed and (pilot or exact or k > domain.ordinary):
        raise InvalidInput(
            f"hashed attributes: no --pilot, --tallies devices, and k at most {domain.ordinary}, "
            "the number of others"
        )
    plans = [_planned(method, request, pilot, exact=exact) for method, request in study.requests()]
    for _, plan in plans:
        check_memory(plan, study.users, exact=exact)
    measured = draw_targets(domain.ordinary, k, study.targets, study.random(_TARGETS))
    largest = max(domain.size(target) for target in measured)
    if largest > MAX_TARGET_CELLS:
        raise InvalidInput(
            f"k = {k}: a target has {largest:,} cells; at most {MAX_TARGET_CELLS:,} are measured"
        )
    asked = RangeQuestions(domain, measured, ranges, study.random(_RANGES)) if ranges else None
    _require_answers(plans, [*measured, *(asked.margins if asked else ())])
    campaign = _Campaign(study, measured, asked, exact)
    for method, plan in plans:
        rows = [campaign.once(method, plan, repeat) for repeat in range(study.repeats)]
        means = {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}
        spread = float(np.std([row["sse_mean"] for row in rows], ddof=1)) if rows[1:] else None
        yield Result(
            dataset, method.name, float(plan.epsilon), k, domain.ordinary, study.users,
            len(measured), study.repeats, tallies,
            sse_stderr=None if spread is None else spread / study.repeats**0.5,
            points=100.0 * Z95 * float(np.sqrt(means.pop("each"))),
            ranges={name: means.pop(name) for name in asked.names} if asked else None,
            **means,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class _Campaign:
    """What is the same for every method and epsilon."""

    study: Study
    targets: tuple[Attributes, ...]
    ranges: RangeQuestions | None
    exact: bool

    def once(self, method: Method, plan: Plan, repeat: int) -> dict[str, float]:
        codes, noise = self.study.devices(repeat)
        truths = true_tables(plan.domain, codes, self.targets)
        started = time.perf_counter()
        fit = self._collect(method, plan, codes, noise)
        counted = time.perf_counter()
        model = fit()
        answers = [model.marginal(target) for target in self.targets]
        done = time.perf_counter()
        found = errors(answers, truths)
        found |= {"collect_seconds": counted - started, "estimate_seconds": done - counted}
        if self.ranges is not None:
            margins = true_tables(plan.domain, codes, self.ranges.margins)
            found |= self.ranges.errors(model, [a.table for a in answers], truths, margins)
        self.study.progress()
        return found

    def _collect(
        self, method: Method, plan: Plan, codes: Codes, noise: np.random.SeedSequence
    ) -> Callable[[], Model]:
        """Collect; return what estimates a model. A plan for fewer devices is a pilot's."""
        if isinstance(method, ReadsReports):
            values = plan.groups[0].views[0].inputs(codes, plan.domain)
            reports = plan.mechanisms[0].perturb(values, SeededRandomness(noise))
            return partial(method.fit_reports, plan, reports)
        if isinstance(method, Follows) and plan.users < len(codes):
            return two_rounds(method, plan, codes, noise, exact=self.exact)
        return partial(registry.fit, plan, collect(plan, codes, noise, exact=self.exact))


def errors(answers: Sequence[Marginal], truths: Sequence[Floats]) -> dict[str, float]:
    """Return mean errors of answers as `Result` names them, and ``each``: squared, of a cell."""
    pairs = [(answer.table, truth) for answer, truth in zip(answers, truths, strict=True)]
    held = [inside(a.table, a.stderr, t) for a, t in zip(answers, truths, strict=True)]
    return {
        "sse_mean": _mean(sse(*pair) for pair in pairs),
        "sse_uniform": _mean(sse(np.full(t.size, 1.0 / t.size), t) for t in truths),
        "tv_mean": _mean(total_variation(*pair) for pair in pairs),
        "avd_mean": _mean(largest_error(*pair) for pair in pairs),
        "coverage": float(np.concatenate(held).mean()),
        "each": _mean(float(np.square(table - truth).mean()) for table, truth in pairs),
    }


def _mean(values: Iterator[float]) -> float:
    return float(np.mean(list(values)))


def _require_answers(plans: Sequence[tuple[Method, Plan]], targets: Sequence[Attributes]) -> None:
    for method, plan in plans:
        if plan.method == method.name:
            model = registry.fit(plan, planning.empty_tallies(plan))
            for target in targets:
                model.marginal(target)


def draw_targets(
    d: int, k: int, count: int, generator: np.random.Generator
) -> tuple[Attributes, ...]:
    """Return ``count`` random sets of k attributes, sorted, or all sets if fewer exist."""
    number = min(count, comb(d, k))
    drawn: set[Attributes] = set()
    while len(drawn) < number:
        members = generator.permutation(d)[:k]
        drawn.add(tuple(sorted(members.tolist())))
    return tuple(sorted(drawn))


def _planned(method: Method, request: Request, pilot: float, *, exact: bool) -> tuple[Method, Plan]:
    name = method.name
    if exact and isinstance(method, ReadsReports):
        raise InvalidInput(f"method {name} reads reports one by one: --tallies devices")
    teachers = method.teachers if isinstance(method, Follows) else (name,)
    if request.domain.hashed and (isinstance(method, ReadsReports) or name not in teachers):
        raise InvalidInput(f"method {name} is not evaluated together with hashed attributes")
    share = pilot if name in teachers else pilot or PILOT_SHARE
    if not (share and isinstance(method, Follows)):
        return method, local_plan(method, request)
    if request.users < 2:
        raise InvalidInput(f"method {name} needs a pilot, so at least 2 devices")
    first = registry.get(teachers[0])
    users = max(1, int(share * request.users))
    return method, local_plan(first, replace(request, users=users))
