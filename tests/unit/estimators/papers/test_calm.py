# ruff: noqa: E741 - l is the papers' symbol
from __future__ import annotations

from itertools import combinations
from math import prod

import numpy as np
import pytest

from calmstream.common.errors import PlanError
from calmstream.estimators import methods
from calmstream.estimators.domain import Domain
from calmstream.estimators.mechanisms.registry import build
from calmstream.estimators.numerics.consistency import harmonise, projection, structure
from calmstream.estimators.papers.calm import size as calm_size
from calmstream.estimators.papers.calm.overlapping import OverlappingTables
from calmstream.estimators.papers.calm.pooled_variance import Pooled
from calmstream.estimators.papers.calm.size import algorithm_1, largest_size, noise_error
from calmstream.estimators.plan import Plan
from calmstream.estimators.tally import Tally
from tests.support.plans import draft, exact_tallies, mixed_domain

EPSILONS = [round(0.2 * i, 1) for i in range(1, 11)]
N16, N18 = 1 << 16, 1 << 18
LARGEST = {
    (N16, 8, 3): [2, 2, 2, 2, 2, 2, 2, 3, 3, 4],
    (N16, 16, 3): [2, 2, 2, 2, 2, 2, 2, 2, 3, 3],
    (N16, 32, 3): [2] * 10,
    (N16, 16, 6): [2] * 10,
    (N16, 32, 6): [2] * 10,
    (N16, 32, 8): [2] * 10,
    (N18, 8, 3): [2, 2, 2, 2, 3, 4, 4, 5, 6, 6],
    (N18, 16, 3): [2, 2, 2, 2, 2, 3, 3, 4, 4, 5],
    (N18, 32, 3): [2, 2, 2, 2, 2, 2, 2, 3, 3, 4],
    (N18, 16, 6): [2, 2, 2, 2, 2, 2, 2, 3, 3, 4],
    (N18, 32, 6): [2, 2, 2, 2, 2, 2, 2, 2, 3, 3],
    (N18, 32, 8): [2, 2, 2, 2, 2, 2, 2, 2, 2, 3],
}
CHOSEN = {
    (N16, 8): [(28, 2)] * 7 + [(56, 3)] * 2 + [(14, 4)],
    (N18, 8): [(28, 2)] * 4 + [(56, 3)] * 5 + [(14, 4)],
    (N18, 16): [(120, 2)] * 5 + [(262, 3)] * 2 + [(140, 4)] * 3,
}


@pytest.mark.parametrize(
    ("epsilon", "l", "expected"),
    [(1.4, 2, 4.75e-4), (1.4, 3, 1.05e-3), (0.2, 2, 0.0481), (0.2, 3, 0.0973)],
)
def test_noise_error(epsilon: float, l: int, expected: float) -> None:
    assert 3 * noise_error(N16, (2,) * 8, epsilon, l) == pytest.approx(expected, rel=5e-3)


@pytest.mark.parametrize("case", LARGEST)
def test_largest_view_size(case: tuple[int, int, int]) -> None:
    n, d, k = case
    assert [largest_size(n, (2,) * d, e, k, 1e-3) for e in EPSILONS] == LARGEST[case]


@pytest.mark.parametrize("case", CHOSEN)
def test_algorithm_1(case: tuple[int, int]) -> None:
    n, d = case
    sizes = [algorithm_1(n, (2,) * d, e, 3, 1e-3) for e in EPSILONS]
    assert [(size.m, size.l) for size in sizes] == CHOSEN[case]


def test_the_cap_on_views_binds_where_the_page_says(monkeypatch: pytest.MonkeyPatch) -> None:
    def chosen() -> tuple[int, int, bool]:
        found = algorithm_1(10**6, (2,) * 16, 3.0, 6, 1e-3)
        return found.m, found.l, found.complete

    assert chosen() == (256, 8, False)
    monkeypatch.setattr(calm_size, "MAX_WORK", 1 << 40)
    assert chosen() == (546, 8, True)


def test_the_description_of_a_design_is_true() -> None:
    plan, design = draft(Domain.binary(16), "0.2", N18, 3)
    assert len(plan.groups) == 120
    assert {view.attributes for group in plan.groups for view in group.views} == set(
        combinations(range(16), 2)
    )
    assert "m = 120 views of l = 2" in design.reason[0]
    assert any("to reach theta" in line for line in design.reason)
    assert dict(plan.parameters) == {"theta": "0.001"}


def test_more_views_than_groups_are_packed_evenly() -> None:
    plan, design = draft(Domain.binary(16), "1.2", N18, 3, max_groups=100)
    sizes = [len(group.views) for group in plan.groups]
    assert (len(sizes), sum(sizes), min(sizes), max(sizes)) == (100, 262, 2, 3)
    assert any("views share 100 groups" in line for line in design.reason)
    mixed, _ = draft(mixed_domain(2, 3, 4, 5, 6, 7), max_groups=14, users=10**6)
    cells = [{view.cells(mixed.domain) for view in group.views} for group in mixed.groups]
    assert all(len(own) == 1 for own in cells)
    assert sum(len(group.views) for group in mixed.groups) == 15


def test_too_many_cells_in_all_are_refused() -> None:
    with pytest.raises(PlanError, match="the 10 views have 2,500,000 cells in all; at most"):
        draft(mixed_domain(*[500] * 5))


def test_too_many_table_sizes_are_refused() -> None:
    with pytest.raises(PlanError, match="different table sizes need as many groups; at most 3"):
        draft(mixed_domain(2, 3, 5, 7), max_groups=3, users=10**6)


def fitted(plan: Plan, tallies: list[Tally]) -> OverlappingTables:
    model = methods.fit(plan, tallies)
    assert isinstance(model, OverlappingTables)
    return model


TRUTH = np.random.default_rng(8).dirichlet(np.full(2 * 3 * 2 * 4, 0.5))


def test_recovers_the_truth_from_noiseless_tallies() -> None:
    plan, _ = draft(mixed_domain(2, 3, 2, 4))
    model = fitted(plan, exact_tallies(plan, TRUTH, 10**9))
    grid = TRUTH.reshape(2, 3, 2, 4)
    for attributes in [(0,), (3,), (0, 1), (1, 3), (2, 3)]:
        others = tuple(i for i in range(4) if i not in attributes)
        marginal = model.marginal(attributes)
        np.testing.assert_allclose(marginal.table, grid.sum(axis=others).ravel(), atol=1e-7)
        assert marginal.flags == ("covered",)
    # Six views hold a pair each; three of them speak about attribute 0.
    assert model.marginal((0, 1)).reports == 10**9
    assert model.marginal((0,)).reports == 3 * 10**9
    larger = model.marginal((0, 1, 3))
    assert larger.flags == ("maxent",)
    pair = larger.table.reshape(2, 3, 4).sum(axis=2).ravel()
    np.testing.assert_allclose(pair, model.marginal((0, 1)).table, atol=1e-8)


def test_negative_estimates_are_clipped_and_flagged() -> None:
    plan, _ = draft(Domain.binary(2), "1")
    counts = np.array([[700, 100, 100, 100]])
    model = fitted(plan, [Tally(np.array([1000]), counts)])
    assert model.unclipped((0, 1)).min() < 0
    marginal = model.marginal((0, 1))
    assert marginal.flags == ("covered", "clipped")
    assert marginal.table.min() == 0.0


FAMILIES = {
    "all pairs": (tuple(combinations(range(4), 2)), (2, 3, 2, 4)),
    "triples": (((0, 1, 2), (1, 2, 3), (0, 2, 3)), (2, 3, 2, 2)),
    "unequal": (((0, 1, 2), (1, 2), (3,), (0, 3)), (3, 2, 2, 3)),
}


@pytest.mark.parametrize("oracle", ["grr", "oue"])
@pytest.mark.parametrize("family", FAMILIES)
def test_equals_the_dense_computation(family: str, oracle: str) -> None:
    views, cardinalities = FAMILIES[family]
    generator = np.random.default_rng(len(family))
    shared = structure(views, cardinalities)
    covariances = []
    for view in views:
        cells = prod(cardinalities[i] for i in view)
        mechanism = build({"name": oracle, "cells": cells}, "1")
        n = int(generator.integers(50, 5000))
        covariances.append(mechanism.covariance(n, generator.dirichlet(np.ones(cells))))
    precision = generator.uniform(0.5, 5, len(views))
    pooled = Pooled(views, cardinalities, covariances, precision)

    total = int(shared.offsets[-1])
    zero, _ = harmonise(shared, np.zeros(total), precision)
    step = np.stack([harmonise(shared, e, precision)[0] - zero for e in np.eye(total)], axis=1)
    dense = np.zeros((total, total))
    for v, own in enumerate(covariances):
        block = slice(shared.offsets[v], shared.offsets[v + 1])
        dense[block, block] = own.dense()
    consistent = step @ dense @ step.T

    for v, view in enumerate(views):
        block = slice(shared.offsets[v], shared.offsets[v + 1])
        for size in range(1, len(view) + 1):
            for target in combinations(view, size):
                into = projection(view, target, cardinalities)
                sums = (into[None, :] == np.arange(into.max() + 1)[:, None]).astype(float)
                expected = np.diag(sums @ consistent[block, block] @ sums.T)
                np.testing.assert_allclose(pooled.variance(target), expected, rtol=1e-9)


def test_an_attribute_in_no_view_adds_nothing() -> None:
    mechanism = build({"name": "grr", "cells": 2}, "1")
    own = mechanism.covariance(10, np.array([0.5, 0.5]))
    pooled = Pooled(((0,),), (2, 5), [own], np.ones(1))
    np.testing.assert_array_equal(pooled.variance((1,)), np.zeros(5))
    # One fifth of the first attribute's share each: a fifth of its error.
    both = pooled.variance((0, 1))
    np.testing.assert_allclose(both, np.repeat(pooled.variance((0,)) / 25, 5))
