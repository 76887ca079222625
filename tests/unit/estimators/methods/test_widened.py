"""Larger errors of tracked counts: the same tables, contracts and answers, and grown variances."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from calmstream.estimators import methods
from calmstream.estimators.methods.base import (
    GroupedAnswers,
    HiddenCauses,
    LinearAnswers,
    Model,
    RawTables,
)
from calmstream.estimators.methods.widened import widened
from calmstream.evaluation.population import collect
from tests.support.plans import draft, mixed_domain

CONTRACTS = (LinearAnswers, RawTables, GroupedAnswers, HiddenCauses)
EVERY = [np.eye(r) for r in (2, 3)]
PAIR = (0, 1)
ANSWERS: list[tuple[Any, Callable[[Any], Any], float]] = [
    (object, lambda m: m.marginal(PAIR).table, 1.0),
    (object, lambda m: m.marginal(PAIR).stderr, 2.0),
    (LinearAnswers, lambda m: m.unclipped(PAIR), 1.0),
    (LinearAnswers, lambda m: m.covariance(PAIR), 4.0),
    (RawTables, lambda m: m.raw_table(PAIR)[0], 1.0),
    (RawTables, lambda m: m.raw_table(PAIR)[1], 4.0),
    (GroupedAnswers, lambda m: m.grouped(PAIR, EVERY)[0], 1.0),
    (GroupedAnswers, lambda m: m.grouped(PAIR, EVERY)[1], 4.0),
    (GroupedAnswers, lambda m: m.dependence(PAIR)[1], 4.0),
    (HiddenCauses, lambda m: m.mixture()[0], 1.0),
]
"""Contract, answer, and the factor by which it grows where variances grow by four."""


@pytest.mark.parametrize("name", ["calm", "noise-aware", "marg-rr", "rr-joint"])
def test_variances_grow_and_tables_stay(name: str) -> None:
    domain, random = mixed_domain(2, 3, 2), np.random.default_rng(1)
    plan, _ = draft(domain, "1", 20_000, 2, name)
    codes = np.stack([random.integers(0, r, 20_000) for r in (2, 3, 2)], axis=1).astype(np.uint16)
    tallies = collect(plan, codes, np.random.SeedSequence(2), exact=True)
    model = methods.fit(plan, tallies)
    views = [view.attributes for group in plan.groups for view in group.views]
    ones = np.ones(len(views))
    assert widened(model, plan, ones, ones) is model
    wide: Model = widened(model, plan, 4.0 * ones, ones)
    assert [isinstance(wide, one) for one in CONTRACTS] == [
        isinstance(model, one) for one in CONTRACTS
    ]
    assert getattr(wide, "processing", ()) == getattr(model, "processing", ())
    for contract, answer, factor in ANSWERS:
        if isinstance(model, contract):
            assert answer(wide) == pytest.approx(factor * answer(model), rel=1e-12)
    if isinstance(model, LinearAnswers) and isinstance(wide, LinearAnswers):
        assert wide.everyone == model.everyone
    if isinstance(model, HiddenCauses) and isinstance(wide, HiddenCauses):
        assert wide.causes() == model.causes()


def test_only_views_with_an_attribute_of_the_table_count() -> None:
    plan, _ = draft(mixed_domain(2, 2, 2), "1", 20_000, 2, "marg-rr")
    codes = np.random.default_rng(1).integers(0, 2, (20_000, 3)).astype(np.uint16)
    model = methods.fit(plan, collect(plan, codes, np.random.SeedSequence(2), exact=True))
    views = [view.attributes for group in plan.groups for view in group.views]
    factor = np.array([9.0 if 2 in view else 1.0 for view in views])
    wide = widened(model, plan, factor, np.ones(len(views)))
    ratio = wide.marginal((0,)).stderr / model.marginal((0,)).stderr
    with_it = [factor[i] for i, view in enumerate(views) if 0 in view]
    assert ratio == pytest.approx(np.sqrt(np.mean(with_it)))
