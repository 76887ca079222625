"""Check the steps of the noise-aware method against independent computations."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from calmstream.estimators.analysis.chi_square import zero_test
from calmstream.estimators.mechanisms.adaptive import best_oracle
from calmstream.estimators.noise_aware.layout import Layout
from calmstream.estimators.noise_aware.statistics import Targets, cell_variance, collect
from calmstream.estimators.numerics.raking import rake
from calmstream.estimators.numerics.subsets import sets_up_to
from calmstream.estimators.plan.pilots import PooledPilots
from tests.support.noise_aware import domain_of, plan_for, tallies_of, truth

PAIRS = ((1, 2), (0, 2), (0, 1))


@pytest.mark.parametrize("cards", [(2, 3, 5), (2, 2, 2)])
def test_interactions_are_the_parts_of_a_table(cards: tuple[int, ...]) -> None:
    layout = Layout(cards)
    table = np.random.default_rng(0).dirichlet(np.ones(int(np.prod(cards)))).reshape(cards)
    total = np.full(cards, 1.0 / table.size)
    for members in sets_up_to(3, 3):
        others = tuple(a for a in range(3) if a not in members)
        part = layout.cells(layout.interactions(table.sum(axis=others), members), members)
        rest = np.prod([cards[a] for a in others])
        total = total + np.expand_dims(part, others) / rest
    np.testing.assert_allclose(total, table, atol=1e-12)
    means = np.concatenate(
        [layout.interactions(table.sum(axis=axes), (i,)) for i, axes in enumerate(PAIRS)]
    )
    for i, axes in enumerate(PAIRS):
        np.testing.assert_allclose(layout.margin(i, means), table.sum(axis=axes), atol=1e-12)


@pytest.mark.parametrize(("epsilon", "cells"), [("0.5", 4), ("1", 8), ("2", 4), ("1", 6)])
def test_statistics_have_the_stated_variance(epsilon: str, cells: int) -> None:
    oracle = best_oracle(epsilon, cells)
    layout = Layout((cells // 2, 2))
    random = np.random.default_rng(3)
    even, n = np.full(cells, 1 / cells), 4000
    estimates = []
    for _ in range(600):
        counts = oracle.draw_tally(random.multinomial(n, even), random)
        estimates.append(
            layout.interactions(oracle.estimate(counts, n).reshape(-1, 2), (0, 1)).ravel()
        )
    stated = cells * cell_variance(oracle) / n
    # A redundant coding spreads (r - 1) directions over r features.
    directions = 1 if cells == 4 else (cells // 2 - 1) / (cells // 2) / 2
    assert np.var(estimates) == pytest.approx(stated * directions, rel=0.15)


@pytest.mark.parametrize(("cards", "epsilon"), [((2, 3, 3), "1"), ((2, 2, 2), "0.5")])
def test_independent_pairs_are_rejected_as_often_as_stated(
    cards: tuple[int, ...], epsilon: str
) -> None:
    plan, layout, n = plan_for(domain_of(*cards), epsilon, 20_000, 2), Layout(cards), 20_000
    rejected = {0.0: 0, 0.4: 0}
    for copied in rejected:
        for run in range(150):
            random = np.random.default_rng((run, 6))
            shares = [np.arange(1.0, r + 1) / (r * (r + 1) / 2) for r in cards]
            columns = [random.choice(len(p), n, p=p) for p in shares]
            columns[1] = np.where(random.random(n) < copied, columns[0], columns[1])
            codes = np.stack(columns, axis=1).astype(np.uint16)
            statistics = collect(plan, tallies_of(plan, codes, run), layout)
            evidence = Targets(layout, statistics).dependence((0, 1))
            assert evidence is not None
            rejected[copied] += zero_test(*evidence).dependent
    assert rejected[0.0] <= 24  # 5 % of 150 are 7.5; more than 24 have a probability below 1e-6
    assert rejected[0.4] >= 100


def test_estimates_of_bits_are_means_over_all_views_by_inverse_variance() -> None:
    d, orders, random = 6, 4, np.random.default_rng(4)
    domain = domain_of(*(2,) * d)
    plans = [plan_for(domain, epsilon, 50_000, k) for epsilon, k in (("4", 4), ("0.5", 2))]
    codes = random.integers(0, 2, size=(50_000, d)).astype(np.uint16)
    tallies = [t for plan in plans for t in tallies_of(plan, codes, 1)]
    tallies[0].n[0] = 0  # no report on this view
    groups = tuple(group for plan in plans for group in plan.groups)
    pooled = PooledPilots(domain, 2, groups)
    sums: dict[tuple[int, ...], list[float]] = {}
    for group, mechanism, tally in zip(pooled.groups, pooled.mechanisms, tallies, strict=True):
        for view, n, counts in zip(group.views, tally.n.tolist(), tally.counts, strict=True):
            if not n:
                continue
            table = mechanism.estimate(counts, n).reshape((2,) * len(view.attributes))
            weight = n / (table.size * cell_variance(mechanism))
            for order in range(1, min(orders, table.ndim) + 1):
                for axes in combinations(range(table.ndim), order):
                    others = tuple(a for a in range(table.ndim) if a not in axes)
                    value = table.sum(axis=others)
                    for _ in axes:
                        value = value[0] - value[1]
                    total = sums.setdefault(tuple(view.attributes[a] for a in axes), [0.0, 0.0])
                    total[0] += weight * float(value)
                    total[1] += weight
    found = collect(pooled, tallies, Layout(domain.cardinalities), orders)
    assert {len(s) for s in sums} == {1, 2, 3, 4}
    assert set(found.higher) == {s for s in sums if len(s) > 2}
    for members, (total, weight) in sums.items():
        expected = (total / weight, weight)
        if len(members) == 1:
            own = found.means[members], found.mean_precision[members]
        elif len(members) == 2:
            own = found.products[members], found.product_precision[members]
        else:
            own = found.higher[members][0].item(), found.higher[members][1]
        assert own == pytest.approx(expected, rel=1e-9)


def test_blocks_are_pooled_by_precision_and_unbiased() -> None:
    domain, n = domain_of(2, 3, 3), 1 << 14
    plan = plan_for(domain, "4", 1 << 22, 3)
    assert any(len(view.attributes) == 3 for group in plan.groups for view in group.views)
    codes = np.random.default_rng(5).integers(0, (2, 3, 3), size=(n, 3)).astype(np.uint16)
    codes[:, 2] = (codes[:, 0] + codes[:, 1]) % 3
    layout = Layout((2, 3, 3))
    exact = layout.interactions(truth(domain, codes, (0, 1, 2)).reshape(2, 3, 3), (0, 1, 2))
    found = [
        collect(plan, tallies_of(plan, codes, seed), layout, 3).higher[0, 1, 2]
        for seed in range(40)
    ]
    energy = [np.square(block - exact).sum() * precision / 4 for block, precision in found]
    assert np.mean(energy) < 1.0 + 4 * np.sqrt(2 / (4 * 40))
    mean = np.mean([block for block, _ in found], axis=0)
    assert np.abs(mean - exact).max() < 5 * np.sqrt(1 / (40 * found[0][1]))


def test_raking_reaches_margins_and_survives_contradictions() -> None:
    random = np.random.default_rng(7)
    joint = random.dirichlet(np.ones(8)).reshape(2, 2, 2)
    targets = [
        ((0, 1), joint.sum(axis=2)[None]),
        ((0, 2), joint.sum(axis=1)[None]),
        ((1, 2), joint.sum(axis=0)[None]),
    ]
    raked = rake(np.full((1, 2, 2, 2), 0.125), targets, 400)[0]
    np.testing.assert_allclose(raked.sum(axis=0), joint.sum(axis=0), atol=1e-4)
    same, opposite = np.array([[[0.5, 0.0], [0.0, 0.5]]]), np.array([[[0.0, 0.5], [0.5, 0.0]]])
    impossible = [((0, 1), same), ((1, 2), same), ((0, 2), opposite)]
    odd = rake(np.full((1, 2, 2, 2), 0.125), impossible)
    assert (odd >= 0).all()
    assert odd.sum() == pytest.approx(1.0)
