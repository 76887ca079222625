"""Measures made-up records on a local table: marginals of one to four attributes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import numpy as np

from calmstream.common.errors import InvalidInput
from calmstream.estimators import methods as registry
from calmstream.estimators.analysis.synthetic import SOURCES
from calmstream.estimators.domain import Attributes, Codes, Domain
from calmstream.estimators.marginal import Floats, sse
from calmstream.estimators.methods.base import Model
from calmstream.estimators.plan.request import Request
from calmstream.evaluation.evaluate import MAX_TARGET_CELLS, draw_targets
from calmstream.evaluation.population import collect, draw, local_plan
from calmstream.tables.records import RecordTable

ORDERS = (1, 2, 3, 4)


@dataclass(frozen=True, slots=True)
class Likeness:
    """How far tables are from those of the drawn devices.

    Attributes:
        source: ``answers`` are the published tables; else what the made-up records, as many as
            there are devices, were drawn from.
        errors: by order the mean over targets and repeats of the squared error summed over cells;
            None where the method does not answer.
    """

    method: str
    epsilon: float
    n: int
    source: str
    errors: dict[int, float | None]


def evaluate_synthetic(
    table: RecordTable,
    *,
    methods: Sequence[str],
    epsilons: Sequence[str],
    k: int,
    users: int,
    targets: int,
    repeats: int,
    seed: int,
    progress: Callable[[], object],
) -> Iterator[Likeness]:
    """Yield one result for each method, epsilon and source; all of them have the same devices."""
    domain, random = table.domain, np.random.default_rng((seed, 0))
    asked = {
        order: [
            target
            for target in draw_targets(len(domain), order, targets, random)
            if domain.size(target) <= MAX_TARGET_CELLS
        ]
        for order in ORDERS
        if order <= len(domain)
    }
    for name in methods:
        for epsilon in epsilons:
            method = registry.get(name)
            plan = local_plan(method, Request(domain, epsilon, users, k))
            found: dict[str, list[dict[int, float | None]]] = {}
            for repeat in range(repeats):
                codes = draw(table.codes, users, np.random.default_rng((seed, 1, repeat)))
                noise = np.random.SeedSequence((seed, 2, repeat))
                model = method.fit(plan, collect(plan, codes, noise, exact=True))
                truths = {
                    order: {target: _shares(domain, codes, target) for target in own}
                    for order, own in asked.items()
                }
                for source, tables in _tables(model, table, users, seed).items():
                    errors = {order: _error(tables, truth) for order, truth in truths.items()}
                    found.setdefault(source, []).append(errors)
                progress()
            for source, rows in found.items():
                means = {order: _mean([row[order] for row in rows]) for order in asked}
                yield Likeness(name, float(epsilon), users, source, means)


def _tables(
    model: Model, table: RecordTable, users: int, seed: int
) -> dict[str, Callable[[Attributes], Floats]]:
    """Return the answers and the tables of made-up records."""
    found: dict[str, Callable[[Attributes], Floats]] = {}
    found["answers"] = lambda target: model.marginal(target).table
    for source, make in SOURCES.items():
        with suppress(InvalidInput):  # the method has no such source
            made = make(model, table.domain).sample(users, np.random.default_rng((seed, 3)))
            found[source] = partial(_shares, table.domain, made)
    return found


def _shares(domain: Domain, codes: Codes, target: Attributes) -> Floats:
    return domain.histogram(codes, target) / len(codes)


def _error(
    tables: Callable[[Attributes], Floats], truth: Mapping[Attributes, Floats]
) -> float | None:
    errors = []
    for target, shares in truth.items():
        try:
            errors.append(sse(tables(target), shares))
        except InvalidInput:
            return None
    return float(np.mean(errors))


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if len(known) == len(values) else None
