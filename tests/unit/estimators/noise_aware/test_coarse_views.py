"""Check views on signs of numbers' levels: their choice, their place in plans, what they say."""

from __future__ import annotations

import numpy as np
import pytest

from calmstream.estimators.domain import Attribute, Domain
from calmstream.estimators.kinds import Ordered
from calmstream.estimators.noise_aware import signs as coarse_views
from calmstream.estimators.noise_aware.layout import Layout
from calmstream.estimators.noise_aware.statistics import signs_of
from calmstream.estimators.numerics.hadamard import signs as parities
from calmstream.estimators.plan import Plan
from tests.support.noise_aware import domain_of, plan_for, tallies_of


def number(count: int) -> Attribute:
    return Attribute("x", tuple(str(i) for i in range(count)), None, Ordered())


@pytest.fixture
def plan() -> Plan:
    domain = Domain((number(32), *domain_of(3).attributes))
    return plan_for(domain, "0.5", 20_000, 2)


def masks_of(plan: Plan) -> list[tuple[int, ...]]:
    return [v.factors for group in plan.groups for v in group.views if v.kind == "parity"]


def test_few_levels_and_exact_tables_get_no_signs() -> None:
    assert coarse_views.choose(8, 100.0, 1e4, "1").masks == ()
    assert coarse_views.choose(64, 1e12, 1e4, "1").masks == ()


@pytest.mark.parametrize("count", [16, 50, 64, 100, 256])
def test_signs_are_parities_of_the_highest_bits(count: int) -> None:
    found = coarse_views.choose(count, 30.0, 10_000, "0.5")
    assert 0.0 < found.share <= 0.5
    bits = len(found.masks).bit_length()
    low = (count - 1).bit_length() - bits
    assert found.masks == tuple(mask << low for mask in range(1, 1 << bits))


def test_the_expected_error_is_that_of_drawn_margins_and_reports() -> None:
    count, random = 16, np.random.default_rng(5)
    prior = coarse_views._scenarios(count)[9]
    signs = parities(coarse_views._masks(count, 2)[:, None] & np.arange(count))
    information = 4e4 * np.eye(count) + 3e4 * signs.T @ signs
    root = np.linalg.cholesky(prior + 1e-15 * np.eye(count))
    margins = random.normal(size=(20_000, count)) @ root.T
    noise = random.normal(size=margins.shape) @ np.linalg.cholesky(information).T
    seen = margins @ information + noise
    error = seen @ np.linalg.inv(np.eye(count) + prior @ information).dot(prior).T - margins
    sums = np.concatenate([np.zeros((len(error), 1)), error.cumsum(axis=1)], axis=1)
    first, last = np.triu_indices(count + 1, 1)
    ranges = np.square(sums[:, last] - sums[:, first]).mean()
    cells = np.square(error).sum(axis=1).mean()
    found = coarse_views._error((prior,), information)
    assert found == pytest.approx((np.log(ranges) + np.log(cells)) / 3.0, abs=0.02)


def test_a_plan_asks_for_signs_of_numbers_only(plan: Plan) -> None:
    assert len(masks_of(plan)) in {1, 3, 7, 15}
    plain = plan_for(domain_of(32, 3), "0.5", 20_000, 2)
    assert not masks_of(plain)
    tables = [v for group in plain.groups for v in group.views]
    assert [v for g in plan.groups for v in g.views if v.kind == "cell"] == tables
    total = sum(sum(g.shares) for g in plan.groups)
    part = sum(
        share
        for g in plan.groups
        for v, share in zip(g.views, g.shares, strict=True)
        if v.kind == "parity"
    )
    # At most half of the part of one of two attributes.
    assert 0.0 < part / total <= 0.25 + 1e-6


@pytest.mark.slow
def test_signs_are_unbiased_with_the_stated_variances(plan: Plan) -> None:
    random = np.random.default_rng(7)
    shares = random.dirichlet(np.full(32, 2.0))
    values, stated = [], np.zeros(0)
    for seed in range(300):
        drawn = random.choice(32, size=4000, p=shares)
        codes = np.stack([drawn, random.integers(3, size=4000)], axis=1).astype(np.uint16)
        margins = [shares, np.full(3, 1 / 3)]
        found = signs_of(plan, tallies_of(plan, codes, seed), Layout((32, 3)), margins)
        assert found is not None
        rows, stated = found.rows[:, :32] * np.sqrt(32), 1.0 / found.precision
        values.append(found.values + rows.mean(axis=1))
    signs = [[(level & mask).bit_count() % 2 for level in range(32)] for (mask,) in masks_of(plan)]
    np.testing.assert_allclose(rows, 1.0 - 2.0 * np.array(signs), rtol=1e-6)
    away, deviation = np.array(values) - rows @ shares, np.sqrt(stated)
    # Means of 300 within 5 standard errors; deviations within 5 times their own error of 4 %.
    assert (np.abs(away.mean(axis=0)) < 5.0 * deviation / np.sqrt(300.0)).all()
    np.testing.assert_allclose(away.std(axis=0), deviation, rtol=0.2)
