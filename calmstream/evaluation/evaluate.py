"""Measures the errors of methods on a local table, for ``calmstream evaluate`` and tests.

Devices are drawn from the table, report as a plan states, and the estimated marginals are compared
with the true ones of the same devices.
"""

from __future__ import annotations

import time
from dataclasses import astuple, dataclass, field, replace
from functools import partial
from math import comb
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from calmstream.common.errors import InvalidInput
from calmstream.estimators import methods as registry
from calmstream.estimators import planning
from calmstream.estimators.marginal import Z95, inside, largest_error, sse, total_variation
from calmstream.estimators.methods.base import Follows, LinearAnswers, Piloted, ReadsReports
from calmstream.estimators.plan.request import Request
from calmstream.estimators.randomness import SeededRandomness
from calmstream.evaluation.population import check_memory, collect, draw, local_plan, two_rounds
from calmstream.evaluation.ranges import RangeErrors, RangeQuestions
from calmstream.planning.methods_page import note_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from calmstream.estimators.domain import Attributes, Codes
    from calmstream.estimators.methods.base import Method, Model
    from calmstream.estimators.plan import Plan
    from calmstream.tables.records import RecordTable

Floats = NDArray[np.float64]

MAX_TARGET_CELLS = 1 << 20
"""Maximum number of cells of a marginal that is measured; it limits time and memory."""

PILOT_SHARE = 0.1
"""Default share of the devices for the pilot of a method that needs one."""

_TARGETS, _DEVICES, _COLLECTION, _RANGES = range(4)
"""Labels that make independent random generators from one seed."""


@dataclass(frozen=True, slots=True)
class Result:
    """One line of an evaluation: the mean errors of one method at one epsilon.

    The errors are those of k-way marginals (targets), compared with those of the drawn devices.

    Attributes:
        dataset: name of the data.
        method: registry name of the measured method.
        epsilon: privacy loss of a report.
        k: number of attributes of a target.
        d: number of attributes of a record.
        n: number of devices that were drawn in each repeat.
        targets: number of targets; fewer than requested if there are not as many.
        repeats: number of repeats.
        tallies: ``devices`` or ``law``, see `evaluate`.
        sse_mean: mean over targets and repeats of the sum over cells of the squared error.
        sse_stderr: standard error of ``sse_mean`` over the repeats; None if there is only one.
        tv_mean: mean of the total variation distance.
        avd_mean: mean of the largest absolute error of a cell.
        points: half-width of the interval, in points of a share, in which 95 % of the shares lie
            if their errors are normal: from the mean squared error of a cell.
        coverage: share of the true cells, of all targets and repeats, that lie in the 95 %
            intervals, table ± 1.96 standard errors.
        collect_seconds: mean time in seconds to perturb and count the reports.
        estimate_seconds: mean time in seconds to fit the model and to answer all targets.
        ranges: mean errors of ranges, margins, means and medians; None if they were not asked for.
    """

    dataset: str
    method: str
    epsilon: float
    k: int
    d: int
    n: int
    targets: int
    repeats: int
    tallies: str
    sse_mean: float
    sse_stderr: float | None
    tv_mean: float
    avd_mean: float
    coverage: float
    points: float
    collect_seconds: float
    estimate_seconds: float
    ranges: RangeErrors | None = None


def evaluate(
    table: RecordTable,
    *,
    dataset: str,
    methods: Sequence[str],
    epsilons: Sequence[str],
    k: int,
    users: int,
    targets: int,
    repeats: int,
    seed: int,
    tallies: Literal["devices", "law"],
    raw: bool = False,
    pilot: float = 0.0,
    ranges: int = 0,
    progress: Callable[[], object] | None = None,
    on_worse_than_uniform: Callable[[Result, float], object] | None = None,
) -> Iterator[Result]:
    """Evaluate every method at every epsilon, in that order; yield results one by one.

    Targets, the devices of every repeat and the seeds of their noise are the same for all methods
    and epsilons, so that the results can be compared pairwise.
    """
    if min(targets, repeats) < 1 or seed < 0:
        raise InvalidInput("targets and repeats must be at least 1, the seed not negative")
    if not 0.0 <= pilot < 1.0:
        raise InvalidInput(f"the share of a pilot must be above 0 and below 1, got {pilot:g}")
    _check_hashed(table, methods, k, pilot, tallies)
    for name in methods:
        if tallies == "law" and isinstance(registry.get(name), ReadsReports):
            raise InvalidInput(f"method {name} reads reports one by one: --tallies devices")
    plans = [
        _planned(name, Request(table.domain, epsilon, users, k), pilot)
        for name in methods
        for epsilon in epsilons
    ]
    for _, plan in plans:
        check_memory(plan, users, exact=tallies == "law")
    measured = draw_targets(table.domain.ordinary, k, targets, _generator(seed, _TARGETS))
    largest = max(table.domain.size(target) for target in measured)
    if largest > MAX_TARGET_CELLS:
        raise InvalidInput(
            f"k = {k}: a target has {largest:,} cells; at most {MAX_TARGET_CELLS:,} are measured"
        )
    singles = tuple((j,) for j in range(table.domain.ordinary)) if ranges else ()
    for method, plan in plans:
        if not isinstance(method, Piloted):
            _require_answers(method, plan, measured, raw=raw)
            _require_answers(method, plan, singles, raw=False)
    asked = None
    if ranges:
        asked = RangeQuestions(table.domain, measured, ranges, _generator(seed, _RANGES))
    campaign = _Campaign(table, dataset, measured, asked, users, repeats, seed, tallies, raw)
    return campaign.run(plans, progress, on_worse_than_uniform)


@dataclass(frozen=True, slots=True, eq=False)
class _Campaign:
    """The measurement of all methods; it has what is the same for every method and epsilon.

    The attributes are arguments of `evaluate`; ``truths`` and
    ``margins`` have the true tables of every repeat.
    """

    table: RecordTable
    dataset: str
    targets: tuple[Attributes, ...]
    ranges: RangeQuestions | None
    users: int
    repeats: int
    seed: int
    tallies: str
    raw: bool
    truths: dict[int, list[Floats]] = field(default_factory=dict)
    margins: dict[int, list[Floats]] = field(default_factory=dict)

    def run(
        self,
        plans: Sequence[tuple[Method, Plan]],
        progress: Callable[[], object] | None,
        on_worse_than_uniform: Callable[[Result, float], object] | None,
    ) -> Iterator[Result]:
        """Measure every plan; yield results one by one."""
        for method, plan in plans:
            rows = []
            for repeat in range(self.repeats):
                rows.append(self._once(method, plan, repeat))
                if progress is not None:
                    progress()
            result = self._result(method, plan, np.array(rows))
            uniform_error = self._uniform_error()
            # The two means are taken in another order; 1e-9 allows for their rounding.
            is_worse = result.sse_mean > uniform_error * (1.0 + 1e-9)
            if on_worse_than_uniform is not None and is_worse:
                on_worse_than_uniform(result, uniform_error)
            yield result

    def _uniform_error(self) -> float:
        """Return the mean squared error of the uniform table over the targets of all repeats."""
        truths = (truth for drawn in self.truths.values() for truth in drawn)
        return float(np.mean([sse(np.full(t.size, 1.0 / t.size), t) for t in truths]))

    def _once(self, method: Method, plan: Plan, repeat: int) -> tuple[float, ...]:
        codes = draw(self.table.codes, self.users, _generator(self.seed, _DEVICES, repeat))
        if repeat not in self.truths:
            self.truths[repeat] = [
                plan.domain.histogram(codes, target) / len(codes) for target in self.targets
            ]
            if self.ranges is not None:
                self.margins[repeat] = self.ranges.truth(codes)
        noise = np.random.SeedSequence((self.seed, _COLLECTION, repeat))
        started = time.perf_counter()
        fit = self._collect(method, plan, codes, noise)
        counted = time.perf_counter()
        model = fit()
        answers = [_answer(model, target, raw=self.raw) for target in self.targets]
        done = time.perf_counter()
        triples = [(*a, t) for a, t in zip(answers, self.truths[repeat], strict=True)]
        errors = [
            float(np.mean([measure(table, t) for table, _, t in triples]))
            for measure in (sse, total_variation, largest_error)
        ]
        coverage = float(np.concatenate([inside(*triple) for triple in triples]).mean())
        each = float(np.mean([np.square(table - t).mean() for table, _, t in triples]))
        row = (*errors, coverage, each, counted - started, done - counted)
        if self.ranges is None:
            return row
        tables = [table for table, _, _ in triples]
        found = self.ranges.errors(model, tables, self.truths[repeat], self.margins[repeat])
        return (*row, *astuple(found))

    def _collect(
        self, method: Method, plan: Plan, codes: Codes, noise: np.random.SeedSequence
    ) -> Callable[[], Model]:
        """Collect reports; return a function that estimates a model from them.

        A method that reads reports gets the reports themselves instead of counts. A plan for
        fewer devices than there are is that of a pilot.
        """
        exact = self.tallies == "law"
        if isinstance(method, ReadsReports):
            values = plan.groups[0].views[0].inputs(codes, plan.domain)
            reports = plan.mechanisms[0].perturb(values, SeededRandomness(noise))
            return partial(method.fit_reports, plan, reports)
        if plan.users < len(codes):
            return two_rounds(method, plan, codes, noise, exact=exact)
        return partial(registry.fit, plan, collect(plan, codes, noise, exact=exact))

    def _result(self, method: Method, plan: Plan, rows: Floats) -> Result:
        """Return the means over the repeats of the rows of `_once`."""
        means = rows.mean(axis=0).tolist()
        spread = float(rows[:, 0].std(ddof=1)) if self.repeats > 1 else None
        return Result(
            dataset=self.dataset,
            method=method.name,
            epsilon=float(plan.epsilon),
            k=plan.k,
            d=plan.domain.ordinary,
            n=self.users,
            targets=len(self.targets),
            repeats=self.repeats,
            tallies=self.tallies,
            sse_mean=means[0],
            sse_stderr=None if spread is None else spread / self.repeats**0.5,
            tv_mean=means[1],
            avd_mean=means[2],
            coverage=means[3],
            points=100.0 * Z95 * float(np.sqrt(means[4])),
            collect_seconds=means[5],
            estimate_seconds=means[6],
            ranges=None if self.ranges is None else RangeErrors(*means[7:]),
        )


def _check_hashed(
    table: RecordTable, methods: Sequence[str], k: int, pilot: float, tallies: str
) -> None:
    """Check that devices can report words, if there are any, beside what is measured."""
    if not table.domain.hashed:
        return
    for name in methods:
        if isinstance(registry.get(name), ReadsReports | Piloted):
            raise InvalidInput(f"method {name} is not evaluated together with hashed attributes")
    if pilot or tallies == "law":
        raise InvalidInput("hashed attributes: no --pilot, and --tallies devices")
    if k > table.domain.ordinary:
        raise InvalidInput(
            f"hashed attributes: k is at most {table.domain.ordinary}, the number of others"
        )


def _pilot_share(method: Method, stated: float) -> float:
    """Return the share of the devices for the pilot; 0 if there is no pilot."""
    if isinstance(method, Piloted):
        return stated or PILOT_SHARE
    return stated if isinstance(method, Follows) else 0.0


def _answer(model: Model, target: Attributes, *, raw: bool) -> tuple[Floats, Floats]:
    """Return the published table, or the unbiased one if ``raw``, and its standard errors."""
    published = model.marginal(target)
    if not raw:
        return published.table, published.stderr
    if isinstance(model, LinearAnswers):
        return model.unclipped(target), published.stderr
    raise InvalidInput("this method makes no unbiased tables to measure raw")


def _require_answers(
    method: Method, plan: Plan, targets: Sequence[Attributes], *, raw: bool
) -> None:
    """Check before the collection that the method can answer all targets."""
    model = registry.fit(plan, planning.empty_tallies(plan))
    if raw and not isinstance(model, LinearAnswers):
        reason = "makes no unbiased tables to measure raw"
        if note_of(method.name).raw:
            reason = "publishes its tables as they are estimated: leave --raw out"
        raise InvalidInput(f"method {method.name} {reason}")
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


def _planned(name: str, request: Request, pilot: float) -> tuple[Method, Plan]:
    """Return a method and its plan, or the plan of its pilot."""
    method = registry.get(name)
    share = _pilot_share(method, pilot)
    if not share:
        return method, local_plan(method, request)
    if request.users < 2:
        raise InvalidInput(f"method {name} needs a pilot, so at least 2 devices")
    pilot_request = replace(request, users=max(1, int(share * request.users)))
    pilot_method = registry.get(method.pilot) if isinstance(method, Piloted) else method
    return method, local_plan(pilot_method, pilot_request)


def _generator(*entropy: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(entropy))
