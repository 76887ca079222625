"""Measures made-up records on a local table: marginals of one to four attributes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from calmstream.common.errors import InvalidInput
from calmstream.estimators.analysis.synthetic import SOURCES
from calmstream.estimators.arrays import Floats
from calmstream.estimators.domain import Attributes, Domain
from calmstream.estimators.marginal import sse
from calmstream.estimators.methods.base import Model
from calmstream.evaluation.evaluate import MAX_TARGET_CELLS, draw_targets
from calmstream.evaluation.population import Study, collect, local_plan, true_tables

ORDERS = (1, 2, 3, 4)
_Targets = Mapping[int, list[Attributes]]


def evaluate_synthetic(study: Study) -> Iterator[dict[str, Any]]:
    """Yield errors by order, summed over cells: of the answers, and of records of each source.

    For each method and epsilon; all of them have the same devices.
    """
    domain, random = study.table.domain, study.random(0)
    asked = {
        order: [
            target
            for target in draw_targets(len(domain), order, study.targets, random)
            if domain.size(target) <= MAX_TARGET_CELLS
        ]
        for order in ORDERS
        if order <= len(domain)
    }
    for method, request in study.requests():
        plan = local_plan(method, request)
        found: dict[str, list[dict[int, float]]] = {}
        for repeat in range(study.repeats):
            codes, noise = study.devices(repeat)
            model = method.fit(plan, collect(plan, codes, noise, exact=True))
            truths = {order: true_tables(domain, codes, own) for order, own in asked.items()}
            for source, tables in _tables(model, domain, asked, study):
                errors = {
                    order: float(np.mean(list(map(sse, tables[order], truths[order]))))
                    for order in tables
                }
                found.setdefault(source, []).append(errors)
            study.progress()
        for source, rows in found.items():
            means = {
                order: float(np.mean([row[order] for row in rows])) if order in rows[0] else None
                for order in asked
            }
            yield {
                "method": method.name,
                "epsilon": float(plan.epsilon),
                "n": study.users,
                "source": source,
                "errors": means,
            }


def _tables(
    model: Model, domain: Domain, asked: _Targets, study: Study
) -> Iterator[tuple[str, dict[int, list[Floats]]]]:
    answers = {}
    for order, targets in asked.items():
        with suppress(InvalidInput):  # the method answers no such table
            answers[order] = [model.marginal(target).table for target in targets]
    yield "answers", answers
    for source, make in SOURCES.items():
        with suppress(InvalidInput):  # the method has no such source
            made = make(model, domain).sample(study.users, study.random(3))
            yield source, {order: true_tables(domain, made, own) for order, own in asked.items()}
