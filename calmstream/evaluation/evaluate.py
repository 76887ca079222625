"""Measures the error of methods on a local table."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from functools import partial
from math import comb
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from calmstream.evaluation.population import collect, draw
from calmstream.evaluation.rounds import local_plan, two_rounds
from calmstream.planning.methods_page import note
from estimators import methods as registry
from estimators import planning
from estimators.errors import InvalidInput
from estimators.marginal import largest_error, sse, total_variation
from estimators.methods import auto
from estimators.methods.base import Follows, LinearAnswers, Piloted, ReadsReports
from estimators.plan.request import Request
from estimators.randomness import SeededRandomness

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from calmstream.tables import Table
    from estimators.domain import Attributes, Codes
    from estimators.methods.auto import Prediction
    from estimators.methods.base import Method, Model
    from estimators.plan import Plan

Floats = NDArray[np.float64]

MAX_TARGET_CELLS = 1 << 20
"""Most cells of a marginal that is measured."""

AUTO = "auto"
"""In place of a method's name: the method with the least predicted error."""

PILOT_SHARE = 0.1
"""Default share of the devices for the pilot of a method that needs one."""

_TARGETS, _DEVICES, _COLLECTION = range(3)


@dataclass(frozen=True, slots=True)
class Result:
    """One line of an evaluation: the errors of k-way marginals against the drawn devices' own.

    Attributes:
        dataset, epsilon, k: what was asked for.
        method: what was measured; where ``auto`` was asked for, the method that it chose.
        d: number of attributes.
        n: devices drawn.
        targets: k-way marginals measured in every repeat; all of them where fewer exist than were
            asked for.
        repeats: number of repeats.
        tallies: ``devices`` or ``law``.
        sse_mean: mean over targets and repeats of the sum over cells of squared error.
        sse_stderr: standard error of ``sse_mean`` over the repeats; None when there is only one.
        tv_mean: the same of the total variation distance.
        avd_mean: the same of a marginal's largest absolute error.
        collect_seconds: mean over repeats: perturbing and tallying.
        estimate_seconds: mean over repeats: fitting and answering all targets.
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
    collect_seconds: float
    estimate_seconds: float


def evaluate(
    table: Table,
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
    progress: Callable[[], object] | None = None,
    chosen: Callable[[str, Prediction], object] | None = None,
    worse: Callable[[Result, float], object] | None = None,
) -> Iterator[Result]:
    """Evaluate every method at every epsilon, in that order; yield results one by one.

    Targets, the devices of every repeat and the seeds of their noise are the same for all methods
    and epsilons, so that differences between them are paired.

    Args:
        table: the records to draw from.
        dataset: its name in the results.
        methods: registry names, or ``auto``: what `estimators.methods.auto` chooses at each
            epsilon.
        epsilons: decimal strings.
        k: size of the targets.
        users: devices per repeat.
        targets: how many marginals are measured.
        repeats: how often everything is drawn anew.
        seed: of everything random.
        tallies: see `collect`.
        raw: measure unbiased tables, before negative cells are corrected.
        pilot: share of the devices, below 1, that are asked first by methods that learn from a
            pilot what to ask the others; 0: as each method needs.
        progress: called after every repeat of every method and epsilon.
        chosen: called with every epsilon and the choice of ``auto`` there, before all else.
        worse: called with a result whose error is above the uniform table's on the same targets and
            devices, and with that error, before the result is yielded.

    Raises:
        InvalidInput: everything is checked before the first repeat; one line.
    """
    if min(targets, repeats) < 1 or seed < 0:
        raise InvalidInput("targets and repeats must be at least 1, the seed not negative")
    if not 0.0 <= pilot < 1.0:
        raise InvalidInput(f"a pilot's share is above 0 and below 1, got {pilot:g}")
    for name in methods:
        if name != AUTO and tallies == "law" and isinstance(registry.get(name), ReadsReports):
            raise InvalidInput(f"method {name} reads reports one by one: --tallies devices")
    plans = [
        _planned(name, Request(table.domain, epsilon, users, k), pilot, chosen)
        for name in methods
        for epsilon in epsilons
    ]
    measured = draw_targets(len(table.domain), k, targets, _generator(seed, _TARGETS))
    largest = max(table.domain.size(target) for target in measured)
    if largest > MAX_TARGET_CELLS:
        raise InvalidInput(
            f"k = {k}: a target has {largest:,} cells; at most {MAX_TARGET_CELLS:,} are measured"
        )
    for method, plan in plans:
        if not isinstance(method, Piloted):
            _require_answers(method, plan, measured, raw=raw)
    campaign = _Campaign(table, dataset, measured, users, repeats, seed, tallies, raw)
    return campaign.run(plans, progress, worse)


@dataclass(frozen=True, slots=True, eq=False)
class _Campaign:
    """What is the same for every method and epsilon; see `evaluate`."""

    table: Table
    dataset: str
    targets: tuple[Attributes, ...]
    users: int
    repeats: int
    seed: int
    tallies: str
    raw: bool
    truths: dict[int, list[Floats]] = field(default_factory=dict)

    def run(
        self,
        plans: Sequence[tuple[Method, Plan]],
        progress: Callable[[], object] | None,
        worse: Callable[[Result, float], object] | None,
    ) -> Iterator[Result]:
        for method, plan in plans:
            rows = []
            for repeat in range(self.repeats):
                rows.append(self._once(method, plan, repeat))
                if progress is not None:
                    progress()
            result = self._result(method, plan, np.array(rows))
            least = self._uniform_error()
            # Beyond the rounding of means that are taken in another order.
            if worse is not None and result.sse_mean > least * (1.0 + 1e-9):
                worse(result, least)
            yield result

    def _uniform_error(self) -> float:
        """The uniform table's mean SSE over the targets of all repeats."""
        truths = (truth for drawn in self.truths.values() for truth in drawn)
        return float(np.mean([sse(np.full(t.size, 1.0 / t.size), t) for t in truths]))

    def _once(self, method: Method, plan: Plan, repeat: int) -> tuple[float, ...]:
        """SSE, TV, largest error, seconds to collect, seconds to estimate."""
        codes = draw(self.table.codes, self.users, _generator(self.seed, _DEVICES, repeat))
        if repeat not in self.truths:
            self.truths[repeat] = [
                plan.domain.histogram(codes, target) / len(codes) for target in self.targets
            ]
        noise = np.random.SeedSequence((self.seed, _COLLECTION, repeat))
        started = time.perf_counter()
        fit = self._collect(method, plan, codes, noise)
        counted = time.perf_counter()
        model = fit()
        answers = [_answer(model, target, raw=self.raw) for target in self.targets]
        done = time.perf_counter()
        pairs = list(zip(answers, self.truths[repeat], strict=True))
        errors = [
            float(np.mean([measure(a, t) for a, t in pairs]))
            for measure in (sse, total_variation, largest_error)
        ]
        return (*errors, counted - started, done - counted)

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
        return partial(method.fit, plan, collect(plan, codes, noise, exact=exact))

    def _result(self, method: Method, plan: Plan, rows: Floats) -> Result:
        """Means over the repeats: rows of `_once`, shape (repeats, 5)."""
        means = rows.mean(axis=0).tolist()
        spread = float(rows[:, 0].std(ddof=1)) if self.repeats > 1 else None
        return Result(
            dataset=self.dataset,
            method=method.name,
            epsilon=float(plan.epsilon),
            k=plan.k,
            d=len(plan.domain),
            n=self.users,
            targets=len(self.targets),
            repeats=self.repeats,
            tallies=self.tallies,
            sse_mean=means[0],
            sse_stderr=None if spread is None else spread / self.repeats**0.5,
            tv_mean=means[1],
            avd_mean=means[2],
            collect_seconds=means[3],
            estimate_seconds=means[4],
        )


def _pilot_share(method: Method, stated: float) -> float:
    """Return the share of the devices for the pilot; 0 if there is no pilot."""
    if isinstance(method, Piloted):
        return stated or PILOT_SHARE
    return stated if isinstance(method, Follows) else 0.0


def _answer(model: Model, target: Attributes, *, raw: bool) -> Floats:
    if not raw:
        return model.marginal(target).table
    if isinstance(model, LinearAnswers):
        return model.unclipped(target)
    raise InvalidInput("this method makes no unbiased tables to measure raw")


def _require_answers(
    method: Method, plan: Plan, targets: Sequence[Attributes], *, raw: bool
) -> None:
    """Check before the collection that the method can answer all targets."""
    model = method.fit(plan, planning.empty_tallies(plan))
    if raw and not isinstance(model, LinearAnswers):
        why = "makes no unbiased tables to measure raw"
        if note(method.name).raw:
            why = "publishes its tables as they are estimated: leave --raw out"
        raise InvalidInput(f"method {method.name} {why}")
    for target in targets:
        model.marginal(target)


def draw_targets(
    d: int, k: int, count: int, generator: np.random.Generator
) -> tuple[Attributes, ...]:
    """Distinct random k-sets of d attributes, ``count`` of them or all there are, sorted."""
    wanted = min(count, comb(d, k))
    drawn: set[Attributes] = set()
    while len(drawn) < wanted:
        members = generator.permutation(d)[:k]
        drawn.add(tuple(sorted(members.tolist())))
    return tuple(sorted(drawn))


def _planned(
    name: str,
    request: Request,
    pilot: float,
    chosen: Callable[[str, Prediction], object] | None,
) -> tuple[Method, Plan]:
    """Return a method and its plan, or its pilot's plan; `auto` is resolved here."""
    design = None
    if name == AUTO:
        planning.check(request)
        choice = auto.choose(request)
        name, design = choice.method, choice.design
        if chosen is not None:
            chosen(request.epsilon, choice)
    method = registry.get(name)
    share = _pilot_share(method, pilot)
    if not share:
        return method, local_plan(method, request, design)
    if request.users < 2:
        raise InvalidInput(f"method {name} asks a pilot first: it takes at least 2 devices")
    asked = replace(request, users=max(1, int(share * request.users)))
    first = registry.get(method.pilot) if isinstance(method, Piloted) else method
    return method, local_plan(first, asked)


def _generator(*entropy: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(entropy))
