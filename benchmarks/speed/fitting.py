"""Measure how long noise-aware fits and answers, beside CALM on the same tallies, on one core.

A line has the processor seconds of a fit and 50 three-way tables at epsilon 1 with 2^18 devices,
the last one those of a fit of eight numbers of 64 levels beside a fit of plain categories.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.grid.cells import devices, targets_of
from benchmarks.populations import first
from benchmarks.speed.rows import Row, best, processor_seconds
from calmstream.estimators import methods
from calmstream.estimators.domain import Attribute, Domain
from calmstream.estimators.methods.base import Request
from calmstream.estimators.noise_aware.model import NoiseAwareModel
from calmstream.estimators.plan.pilots import PooledPilots
from calmstream.evaluation.population import collect, local_plan

USERS = 1 << 18
CASES = (
    ("kosarak", 8, "at most 0.5"),
    ("kosarak", 16, "at most 1"),
    ("kosarak", 32, "at most 0.6"),
    ("adult", 8, "at most 0.6"),
    ("census", 16, "at most 1"),
)
"""Data sets with their numbers of attributes and aims; Adult and the census are categorical."""


def rows(repeats: int) -> Iterator[Row]:
    for dataset, d, aim in CASES:
        if first(dataset, d) is not None:
            yield _row(dataset, d, aim, repeats)
    yield _numbers(repeats)


def _row(dataset: str, d: int, aim: str, repeats: int) -> Row:
    table = first(dataset, d)
    assert table is not None
    plan = local_plan(methods.get("noise-aware"), Request(table.domain, "1", USERS, 3))
    codes = devices(dataset, d, USERS, 0)
    tallies = collect(plan, codes, np.random.SeedSequence(1), exact=True)
    targets = targets_of(table.domain, 3, 50)

    def answer(name: str) -> None:
        model = methods.get(name).fit(plan, tallies)
        for target in targets:
            model.marginal(target)

    ours, calm = best(
        repeats,
        lambda: processor_seconds(lambda: answer("noise-aware")),
        lambda: processor_seconds(lambda: answer("calm")),
    )
    kind = "bits" if set(table.domain.cardinalities) == {2} else "categorical attributes"
    return Row(
        f"fit and 50 three-way tables, {d} {kind}", "s", aim, ours, calm, "CALM on the same tallies"
    )


def _numbers(repeats: int) -> Row:
    """Return the line of eight normal numbers, each two of which have a correlation of 0.36."""
    document = [
        {"name": f"number {i}", "kind": "number", "edges": list(range(65))} for i in range(8)
    ]
    domain, random = Domain.from_dictionary(document), np.random.default_rng(1)
    common, own = random.normal(size=(USERS, 1)), random.normal(size=(USERS, 8))
    codes = np.clip(32.0 + 10.0 * (0.6 * common + 0.8 * own), 0, 63).astype(np.uint16)
    plan = local_plan(methods.get("noise-aware"), Request(domain, "1", USERS, 2))
    tallies = collect(plan, codes, np.random.SeedSequence(1), exact=True)
    without = Domain(tuple(Attribute(a.name, a.labels, a.other) for a in domain.attributes))
    plain = PooledPilots(without, 2, plan.groups)
    ours, categories = best(
        repeats,
        lambda: processor_seconds(lambda: NoiseAwareModel(plan, tallies)),
        lambda: processor_seconds(lambda: NoiseAwareModel(plain, tallies)),
    )
    return Row("fit of eight numbers of 64 levels", "s", "at most 3", ours, categories,
               "plain categories, same tallies")  # fmt: skip
