"""Measure one cell of the grid: choose the methods and targets, and compute the errors.

Targets, devices and seeds of noise are the same for all methods in a repeat; all epsilons share the
devices. Tallies are drawn from their distribution under the mechanism. A result gives the reason
for each method that is left out: it refuses the domain, k, or the size of a table.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import combinations
from math import prod
from typing import Any
from zlib import crc32

import numpy as np

from benchmarks.populations import first
from calmstream.common.errors import CalmstreamError
from calmstream.estimators import methods
from calmstream.estimators.arrays import Floats
from calmstream.estimators.domain import Attributes, Codes, Domain
from calmstream.estimators.marginal import sse
from calmstream.estimators.methods.base import Follows, Method, Model, Request
from calmstream.estimators.plan import Plan
from calmstream.evaluation.evaluate import draw_targets
from calmstream.evaluation.population import collect, local_plan

OURS = "noise-aware"  # the method that is compared with all others

MAX_CELLS = 1 << 16  # number of cells of the largest table that is measured

NORMAL_95 = 1.959964  # half the width of a 95 % interval, in standard errors

NOT_ASKED = "not asked for"  # why a method is left out that would be measured if all methods were

_TARGETS, _DEVICES, _NOISE = range(3)
"""Labels of seeds, so that targets, devices and noise are drawn independently."""


@dataclass(frozen=True)
class Cell:
    dataset: str  # name of the data set in `benchmarks.populations`
    d: int  # number of its first attributes that are used
    k: int  # number of attributes of a target
    epsilon: str  # privacy parameter of a report, as a decimal
    log_users: int  # base-2 logarithm of the number of devices

    @property
    def name(self) -> str:
        return f"{self.dataset}-d{self.d}-k{self.k}-eps{self.epsilon}-n{self.log_users}"

    @property
    def users(self) -> int:
        return 1 << self.log_users


def fitting(domain: Domain, k: int) -> list[Attributes] | None:
    """Return the sets of k attributes whose tables have at most `MAX_CELLS`; None if all have."""
    if prod(sorted(domain.cardinalities)[-k:]) <= MAX_CELLS:
        return None
    sets = combinations(range(len(domain)), k)
    return [attributes for attributes in sets if domain.size(attributes) <= MAX_CELLS]


def targets_of(domain: Domain, k: int, count: int) -> tuple[Attributes, ...]:
    """Draw ``count`` of the sets that `fitting` returns; the same for one domain and k."""
    generator = np.random.default_rng((_TARGETS, len(domain), k))
    sets = fitting(domain, k)
    if sets is None:
        return draw_targets(len(domain), k, count, generator)
    drawn = generator.choice(len(sets), min(count, len(sets)), replace=False)
    return tuple(sets[i] for i in sorted(drawn.tolist()))


@lru_cache(maxsize=8)
def devices(dataset: str, d: int, users: int, repeat: int) -> Codes:
    """Return the records of a repeat: shape (users, d)."""
    table = first(dataset, d)
    assert table is not None
    generator = np.random.default_rng((_DEVICES, crc32(dataset.encode()), users, repeat))
    return table.codes[generator.integers(len(table.codes), size=users)]


@lru_cache(maxsize=8)
def truths(
    dataset: str, domain: Domain, users: int, repeat: int, targets: tuple[Attributes, ...]
) -> list[Floats]:
    codes = devices(dataset, len(domain), users, repeat)
    return [domain.histogram(codes, target) / users for target in targets]


class Measured:
    """The errors of one method, repeat by repeat.

    Attributes:
        errors: mean squared error of a target's table, summed over its cells.
        product: the same for the product of the method's estimates of single attributes, if the
            method has them.
        coverage: share of all cells of the targets whose 95 % interval contains the true value.
        seconds: processor seconds of collecting, fitting and answering, summed over the repeats.
    """

    def __init__(self, method: Method, plan: Plan) -> None:
        self._method = method
        self._plan = plan
        self.errors: list[float] = []
        self.product: list[float] = []
        self.coverage: list[float] = []
        self.seconds = {"collect": 0.0, "fit": 0.0, "answer": 0.0}

    def once(
        self, codes: Codes, seed: tuple[int, ...], targets: list[tuple[Attributes, Floats]]
    ) -> None:
        times = [time.process_time()]
        tallies = collect(self._plan, codes, np.random.SeedSequence(seed), exact=True)
        times.append(time.process_time())
        model = self._method.fit(self._plan, tallies)
        times.append(time.process_time())
        answers = [model.marginal(target) for target, _ in targets]
        times.append(time.process_time())
        for stage, spent in zip(self.seconds, np.diff(times).tolist(), strict=True):
            self.seconds[stage] += spent
        pairs = [(answer, truth) for answer, (_, truth) in zip(answers, targets, strict=True)]
        self.errors.append(float(np.mean([sse(a.table, t) for a, t in pairs])))
        inside = [np.abs(a.table - t) <= NORMAL_95 * a.stderr for a, t in pairs]
        self.coverage.append(float(np.concatenate(inside).mean()))
        if self._method.name == OURS:
            of_products = [sse(_product_of_margins(model, one), truth) for one, truth in targets]
            self.product.append(float(np.mean(of_products)))


def _product_of_margins(model: Model, attributes: Attributes) -> Floats:
    """Return the product of margins: a table is of use only if it is better."""
    table = np.ones(1)
    for i in attributes:
        table = np.outer(table, model.marginal((i,)).table).ravel()
    return table


def _start(request: Request, only: list[str] | None) -> tuple[dict[str, Measured], dict[str, str]]:
    """Plan every method to measure; return these, and the reason for each of the others."""
    running: dict[str, Measured] = {}
    skipped: dict[str, str] = {}
    for name in methods.names():
        method = methods.get(name)
        if method.baseline or (isinstance(method, Follows) and name not in method.teachers):
            continue
        if only and name not in only:
            skipped[name] = NOT_ASKED
            continue
        try:
            design = method.design(request)
            running[name] = Measured(method, local_plan(method, request, design))
        except CalmstreamError as refusal:
            skipped[name] = f"refuses: {refusal}"
    return running, skipped


def _repeat(
    cell: Cell,
    repeat: int,
    targets: tuple[Attributes, ...],
    running: dict[str, Measured],
    skipped: dict[str, str],
) -> float:
    """Measure a repeat of ``running``; return uniform's error. Who refuses moves to ``skipped``."""
    table = first(cell.dataset, cell.d)
    assert table is not None
    codes = devices(cell.dataset, cell.d, cell.users, repeat)
    true = truths(cell.dataset, table.domain, cell.users, repeat, targets)
    seed = (_NOISE, crc32(cell.name.encode()), repeat)
    for name in list(running):
        try:
            running[name].once(codes, seed, list(zip(targets, true, strict=True)))
        except CalmstreamError as refusal:
            skipped[name] = f"refuses: {refusal}"
            del running[name]
    return float(np.mean([sse(np.full(t.size, 1.0 / t.size), t) for t in true]))


def measure(cell: Cell, *, repeats: int, count: int, only: list[str] | None) -> dict[str, Any]:
    started = time.process_time()
    table = first(cell.dataset, cell.d)
    assert table is not None
    domain = table.domain
    request = Request(domain, cell.epsilon, cell.users, cell.k)
    running, skipped = _start(request, only)
    planned = time.process_time()
    targets = targets_of(domain, cell.k, count)
    uniform = [_repeat(cell, repeat, targets, running, skipped) for repeat in range(repeats)]
    sets = fitting(domain, cell.k)
    return {
        "cell": asdict(cell),
        "targets": len(targets),
        "sets_that_fit": None if sets is None else len(sets),
        "errors": {name: m.errors for name, m in running.items()} | {"uniform": uniform},
        "product": {name: m.product for name, m in running.items() if m.product},
        "coverage": {name: m.coverage for name, m in running.items()},
        "skipped": skipped,
        "seconds": {
            "all": time.process_time() - started,
            "plan": planned - started,
            "methods": {
                name: {stage: spent / repeats for stage, spent in m.seconds.items()}
                for name, m in running.items()
            },
        },
    }
