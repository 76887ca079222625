from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from calmstream.common.errors import PlanError
from calmstream.estimators.domain import Attribute, Domain
from calmstream.estimators.kinds import Ordered
from calmstream.estimators.mechanisms.registry import standard
from calmstream.estimators.methods.noise_aware import NoiseAware
from calmstream.estimators.noise_aware.design import PriorScales, learn_scales
from calmstream.estimators.noise_aware.layout import Layout
from calmstream.estimators.noise_aware.statistics import collect
from calmstream.estimators.plan import Group, Plan
from calmstream.estimators.plan.document import read_plan
from calmstream.estimators.plan.pilots import pool, read_earlier
from calmstream.estimators.planning import empty_tallies
from calmstream.estimators.tally import Tally
from calmstream.estimators.view import View
from tests.support.noise_aware import chain, domain_of, tallies_of, truth
from tests.support.plans import draft

METHOD = NoiseAware()


def taught(
    cards: tuple[int, ...], codes: np.ndarray, epsilon: str = "1", method: str = "noise-aware"
) -> tuple[Plan, list[Tally], dict[str, Any]]:
    pilot, _ = draft(domain_of(*cards), epsilon, len(codes), 2, method, name="pilot")
    tallies = tallies_of(pilot, codes, 1)
    return pilot, tallies, METHOD.follow(pilot, tallies)


# Sizes as they are stated


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ([0.6, -0.1], "of order 2: expected a standard deviation from 0 to 1, got -0.1"),
        ([float("inf")], "of order 1: expected a standard deviation from 0 to 1, got inf"),
        ([0.6, 1.5], "of order 2: expected a standard deviation from 0 to 1, got 1.5"),
        ([0, 0.0], "all are 0"),
        ([0.1] * 5, "expected 1 to 4 numbers"),
        ([0.6, [0.1] * 17], "of order 2: expected a number or 1 to 16 of them"),
        ([0.6, [0.1, -0.1]], "of order 2: expected a standard deviation from 0 to 1, got -0.1"),
        ([[0.6], 0.1], "of order 1: expected a standard deviation from 0 to 1, got [0.6]"),
        ([0.6, [0.1, [0.1]]], "of order 2: expected a standard deviation from 0 to 1, got [0.1]"),
    ],
)
def test_impossible_scales_are_refused(sizes: Any, message: str) -> None:
    with pytest.raises(PlanError, match="parameter prior_sizes") as caught:
        draft(domain_of(2, 2, 2), method="noise-aware", parameters={"prior_sizes": sizes})
    assert message in str(caught.value)


def test_scales_decide_the_shares_and_are_in_the_plan() -> None:
    def shares(parameters: dict[str, Any]) -> tuple[Plan, float]:
        plan, _ = draft(domain_of(*[2] * 8), "0.3", 30_000, 3, "noise-aware", parameters)
        single = sum(
            share
            for group in plan.groups
            for view, share in zip(group.views, group.shares, strict=True)
            if len(view.attributes) == 1
        )
        return plan, single / plan.total_share

    weak, alone = shares({"prior_sizes": [0.6, 0.01, 0]})
    strong, together = shares({"prior_sizes": [0.6, 0.3, 0.1, 0.05]})
    plain, between = shares({})
    assert alone > 0.8
    assert together < between < alone
    assert weak.parameters == {"prior_sizes": ["0.6", "0.01", 0]}
    assert plain.parameters == {}
    assert read_plan(strong.to_bytes()) == strong


# Sizes as they are learnt


def exact_sizes(cards: tuple[int, ...], codes: np.ndarray) -> tuple[float, float]:
    """Return the root mean square of the population's own coefficients of order 1 and of pairs."""
    layout, domain = Layout(cards), domain_of(*cards)

    def interaction(*own: int) -> np.ndarray:
        table = truth(domain, codes, own).reshape([cards[i] for i in own])
        return layout.interactions(table, own)

    means = [interaction(i) for i in range(len(cards))]
    first = [np.square(mean).sum() / (r - 1) for mean, r in zip(means, cards, strict=True)]
    pairs = [
        np.square(interaction(i, j) - np.outer(means[i], means[j])).sum()
        / ((cards[i] - 1) * (cards[j] - 1))
        for i, j in combinations(range(len(cards)), 2)
    ]
    return float(np.sqrt(np.mean(first))), float(np.sqrt(np.mean(pairs)))


@pytest.mark.parametrize("keep", [0.2, 0.8])
@pytest.mark.parametrize("cards", [(2,) * 6, (2, 3, 4)])
def test_a_large_pilot_finds_the_scales(cards: tuple[int, ...], keep: float) -> None:
    codes = chain(200_000, len(cards), 3, keep=keep)
    codes[:, -1] += (codes[:, -1] == 1) & (codes[:, 0] == 1) & (cards[-1] > 2)
    pilot, tallies, _ = taught(cards, codes, "4")
    single, pairs, third, fourth = learn_scales(pilot, tallies)
    one, two = exact_sizes(cards, codes)
    # Few coefficients determine a scale to a factor of about 1 + 1 / sqrt(2 coefficients).
    assert one / 1.5 < single < one * 1.8
    assert two / 1.5 < pairs[1] < two * 1.8
    assert pairs[0] < pairs[1] < pairs[2] < 3 * pairs[0]
    assert third == pytest.approx(pairs[1] * 0.5, rel=1e-3)
    assert fourth == pytest.approx(pairs[1] * 0.3, rel=1e-3)


@pytest.mark.parametrize("devices", [1, 20])
def test_a_pilot_of_pure_noise_leaves_the_scales_as_uncertain_as_before(devices: int) -> None:
    _, _, parameters = taught((2, 3, 2, 2), np.zeros((devices, 4), np.uint16), "0.1")
    single, pairs, _, _ = parameters["prior_sizes"]
    assert single == pytest.approx(PriorScales().scales[0], rel=0.2)
    assert pairs == pytest.approx(PriorScales().pairs, rel=0.2)


# Counts that join the totals


def test_pooling_is_by_inverse_variance() -> None:
    cards = (2, 3, 2, 2)
    codes = np.random.default_rng(2).integers(0, cards, size=(9000, 4)).astype(np.uint16)
    pilot, first, parameters = taught(cards, codes[:3000], "2", "calm")
    child, design = draft(domain_of(*cards), "0.5", 6000, 2, "noise-aware", parameters)
    assert "totals join 3,000 reports of earlier plans" in design.reason[-1]
    second = tallies_of(child, codes[3000:], 2)
    layout = Layout(cards)
    one, two = collect(pilot, first, layout), collect(child, second, layout)
    both = collect(*pool(child, second, read_earlier(child.parameters, child.domain)), layout)
    for name, precision in (("means", "mean_precision"), ("products", "product_precision")):
        (x, a), (y, b), (found, known) = (
            (getattr(each, name), getattr(each, precision)) for each in (one, two, both)
        )
        np.testing.assert_allclose(known, a + b, rtol=1e-7)
        np.testing.assert_allclose(found * known, a * x + b * y, atol=1e-9 * known.max())


def test_a_pilot_without_child_reports_answers_its_totals() -> None:
    codes = chain(5000, 4, 9)
    _, _, parameters = taught((2,) * 4, codes)
    child, _ = draft(domain_of(*[2] * 4), "1", 2000, 2, "noise-aware", parameters)
    answer = METHOD.fit_total(child, empty_tallies(child)).marginal((0, 1))
    assert answer.reports > 0
    assert "uniform" not in answer.flags
    assert METHOD.fit(child, empty_tallies(child)).marginal((0, 1)).reports == 0


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ("noise-aware", "nothing is counted yet"),
        ("inp-ht", r"learns from noise-aware, calm, .*; the pilot is inp-ht"),
    ],
)
def test_a_pilot_without_counts_or_tables_is_refused(method: str, message: str) -> None:
    pilot, _ = draft(domain_of(2, 2, 2), method=method)
    with pytest.raises(PlanError, match=message):
        METHOD.follow(pilot, empty_tallies(pilot))


@pytest.mark.parametrize("kind", [None, Ordered()])
def test_the_sign_of_a_bit_is_its_table(kind: Ordered | None) -> None:
    domain = Domain(tuple(Attribute(name, ("0", "1"), None, kind) for name in "ab"))
    plan, _ = draft(domain, "1", 40_000, 2, "noise-aware")
    alone = [View((0,)), View((0,), "parity", (1,))]
    groups = [Group(standard("grr", "1", 2), (view,), (plan.total_share,)) for view in alone]
    table, sign = (replace(plan, groups=(*plan.groups, group)) for group in groups)
    codes = (np.random.default_rng(1).random((40_000, 2)) < [0.2, 0.6]).astype(np.uint16)
    counted = tallies_of(table, codes, 2)
    for fit in (METHOD.fit, METHOD.fit_total):
        expected, found = (fit(one, counted).marginal((0,)) for one in (table, sign))
        assert np.array_equal(found.table, expected.table)
        assert np.array_equal(found.stderr, expected.stderr)
    assert METHOD.follow(sign, counted)["prior_sizes"]
