"""Check the standard errors of cells whose true share is nearly zero."""

from __future__ import annotations

import numpy as np
import pytest

from calmstream.estimators.methods.noise_aware import NoiseAware
from calmstream.estimators.noise_aware.model import MOST_SURE
from calmstream.estimators.noise_aware.tables.intervals import (
    FEW_DRAWS,
    half_width,
    log_normal_stderr,
)
from calmstream.estimators.noise_aware.tables.mixed import MixedTables
from tests.support.noise_aware import chain, domain_of, plan_for, tallies_of, truth


@pytest.mark.parametrize("deviation", [0.05, 0.5, 1.0, 1.4])
def test_draws_of_a_log_normal_variable_are_covered_up_to_their_own_upper_end(
    deviation: float,
) -> None:
    mean = 0.01
    sd = mean * np.sqrt(np.expm1(deviation**2))
    stderr = log_normal_stderr(np.array([mean]), np.array([sd]))[0]
    reach = mean * np.exp(1.96 * deviation - deviation**2 / 2)
    assert stderr == pytest.approx(max(sd, (reach - mean) / 1.96))
    draws = mean * np.exp(
        deviation * np.random.default_rng(1).normal(size=200_000) - deviation**2 / 2
    )
    assert np.mean(draws > mean + 1.96 * stderr) <= 0.026


def test_nothing_known_of_a_cell_is_no_trouble() -> None:
    table = np.array([0.0, 0.0, 1e-300, 1e-12, 0.3, 1.0])
    stderr = np.array([0.0, 0.01, 1e-3, 1e-3, 1e-9, 0.5])
    errors = log_normal_stderr(table, stderr)
    assert np.isfinite(errors).all()
    assert (errors >= stderr).all()
    drawn = np.tile(table, (2, 1))
    assert (half_width(table, drawn) == 0.0).all()


def test_of_a_cell_known_well_both_ends_count() -> None:
    drawn = 0.3 + 0.01 * np.random.default_rng(1).normal(size=(4000, 1))
    width = half_width(np.array([0.3]), drawn)[0]
    assert width == pytest.approx(1.96 * 0.01 * FEW_DRAWS, rel=0.06)


def test_of_a_cell_that_may_be_empty_the_interval_is_one_sided() -> None:
    drawn = np.random.default_rng(2).exponential(0.01, size=(4000, 1))
    half = half_width(np.array([0.01]), drawn)[0]
    upper = 0.01 * (1.0 + (-np.log(0.05) - 1.0)) ** FEW_DRAWS  # of 95 %, not of 97.5 %
    assert half + 0.01 == pytest.approx(upper, rel=0.06)
    assert half > 0.01  # so 0 is covered


@pytest.mark.parametrize(("draws", "least"), [(8, 0.87), (40, 0.94)])
def test_few_draws_hold_a_new_one_no_less_than_they_say(draws: int, least: float) -> None:
    random = np.random.default_rng(3)
    drawn = np.exp(random.normal(size=(draws, 20_000)))
    table, new = np.full(20_000, np.exp(0.5)), np.exp(random.normal(size=20_000))
    covered = np.mean(np.abs(new - table) <= half_width(table, drawn))
    assert least <= covered <= 0.97


@pytest.mark.slow
def test_sparse_baskets_are_covered_but_not_by_anything() -> None:
    d, users = 20, 50_000
    random = np.random.default_rng(4)
    share = 0.25 * np.arange(1, d + 1) ** -0.8
    activity = random.gamma(1.0, 1.0, (users, 1))
    codes = (random.random((users, d)) < 1.0 - np.exp(-share * activity)).astype(np.uint16)
    domain = domain_of(*[2] * d)
    plan = plan_for(domain, "0.5", users, 6)
    inside, ratios = [], []
    for seed in range(3):
        model = NoiseAware().fit(plan, tallies_of(plan, codes, seed))
        for _ in range(8):
            attributes = tuple(sorted(random.choice(d, 6, replace=False).tolist()))
            marginal = model.marginal(attributes)
            gap = np.abs(marginal.table - truth(domain, codes, attributes))
            inside.append(gap <= 1.96 * marginal.stderr)
            ratios.append(1.96 * marginal.stderr / marginal.table)
    assert 0.9 <= float(np.mean(inside)) <= 0.998
    assert (
        float(np.median(ratios)) < 8.0
    )  # a first-order interval of the logarithm is 30 times as wide


@pytest.mark.parametrize("cards", [(2, 2, 2, 2), (3, 4, 2)])
def test_where_hardly_anything_is_known_intervals_hold_all_that_is_possible_and_no_more(
    cards: tuple[int, ...],
) -> None:
    domain = domain_of(*cards)
    plan = plan_for(domain, "0.01", 200, 3)
    codes = np.zeros((200, len(cards)), np.uint16)
    model = NoiseAware().fit(plan, tallies_of(plan, codes, 1))
    for attributes in ((0,), (0, 1), (0, 1, 2)):
        marginal = model.marginal(attributes)
        farthest = np.maximum(marginal.table, 1.0 - marginal.table)
        assert "noise" in marginal.flags
        assert (1.96 * marginal.stderr <= farthest + 1e-12).all()
        assert (1.96 * marginal.stderr > 0.1 * farthest).all()


@pytest.mark.slow
def test_errors_trust_one_model_no_more_than_the_statistics_decide() -> None:
    sure = []
    for d, users in ((4, 400), (4, 400_000), (10, 20_000)):
        codes = chain(users, d, 6, keep=0.6)
        plan = plan_for(domain_of(*[2] * d), "2", users, 3)
        model = NoiseAware().fit(plan, tallies_of(plan, codes, 7))
        mixed = model.fitted
        assert isinstance(mixed, MixedTables)
        sure.append(mixed.most_sure)
        if users == 400_000:
            mixed.share = mixed.most_sure = 1.0
            mean, variance = mixed._joint.marginal((0, 1))
            np.testing.assert_allclose(
                model.marginal((0, 1)).stderr, log_normal_stderr(mean, np.sqrt(variance)).ravel()
            )
    assert all(MOST_SURE < each < 1.0 for each in sure[:2])
    assert sure[2] == MOST_SURE, "of more attributes it has pairs alone"
