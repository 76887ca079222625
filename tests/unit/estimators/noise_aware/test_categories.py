"""Check the assumptions of the low-rank model about attributes of several categories."""

from __future__ import annotations

from math import lgamma

import numpy as np
import pytest

from calmstream.estimators.noise_aware.input.features import Features
from calmstream.estimators.noise_aware.input.statistics import Statistics
from calmstream.estimators.noise_aware.models import low_rank
from calmstream.estimators.noise_aware.models.blocks import Blocks
from calmstream.estimators.noise_aware.models.concentration import Concentrations
from tests.support.noise_aware import crossed


def observed(
    features: Features,
    margins: list[np.ndarray],
    noise: float,
    seed: int,
    of_means: np.ndarray | None = None,
) -> Statistics:
    """Return statistics of independent attributes with normal noise, ten times larger for pairs."""
    random = np.random.default_rng(seed)
    means = np.concatenate([p @ c for p, c in zip(margins, features.codes, strict=True)])
    deviation = np.full(features.size, noise) if of_means is None else of_means
    symmetric = np.triu(random.normal(size=(features.size, features.size)), 1)
    products = np.outer(means, means) + 10 * noise * (symmetric + symmetric.T)
    return Statistics(
        means + deviation * random.normal(size=features.size),
        deviation**-2,
        products * crossed(features),
        np.where(crossed(features), (10 * noise) ** -2, 0.0),
        {},
    )


@pytest.mark.parametrize("cards", [(2, 2), (3, 5), (2, 7)])
def test_in_their_units_squared_correlations_average_to_tschuprows_t(
    cards: tuple[int, int],
) -> None:
    features = Features(cards)
    table = np.random.default_rng(1).dirichlet(np.ones(cards[0] * cards[1])).reshape(cards)
    p, q = table.sum(axis=1), table.sum(axis=0)
    phi2 = float((np.square(table - np.outer(p, q)) / np.outer(p, q)).sum())
    parts = features.interactions((0, 1), table.ravel())
    means = np.concatenate([parts[1:, 0], parts[0, 1:]])
    deviation = features.unit * np.sqrt(features.variance(means))
    one, two = features.slices
    gap = parts[1:, 1:] - np.outer(means[one], means[two])
    size = gap / np.outer(deviation[one], deviation[two])
    # Both codes of a bit have the same correlation, and weights that sum to 1.
    first = 1.0 - p if cards[0] > 2 else np.ones(1)
    second = 1.0 - q if cards[1] > 2 else np.ones(1)
    weight = np.outer(first, second) / (first.sum() * second.sum())
    tschuprow = phi2 / np.sqrt((cards[0] - 1) * (cards[1] - 1))
    assert float((weight * np.square(size)).sum()) == pytest.approx(tschuprow)


@pytest.mark.slow
def test_pairs_that_drown_in_noise_add_little_to_the_product_of_the_margins() -> None:
    features = Features((3, 8, 5, 6, 2, 4))
    random = np.random.default_rng(2)
    margins = [random.dirichlet(np.full(r, 2.0)) for r in features.cardinalities]
    own = crossed(features)
    added, spread = [], []
    for seed in range(3):
        post = low_rank.fit(features, observed(features, margins, 0.3, seed))
        product = np.outer(post.means, post.means)
        added.append(np.square(post.products - product)[own].mean())
        spread.append(post.mean_variance.mean())
    assert np.mean(added) < 0.03 * 0.3**2  # of the noise
    assert np.mean(added) < 0.06 * np.mean(spread)


@pytest.mark.slow
def test_sampled_moments_and_their_conditional_means_agree() -> None:
    features = Features((3, 2, 4, 2))
    random = np.random.default_rng(3)
    margins = [random.dirichlet(np.full(r, 2.0)) for r in features.cardinalities]
    sampler = low_rank._Sampler(features, observed(features, margins, 0.03, 4))
    drawn, smooth = [], []
    for number in range(700):
        sampler.sweep()
        if number < 100:
            continue
        low, residual = sampler.low(), sampler.residual()
        gain = np.where(sampler.known, residual / (residual + sampler.noise), 0.0)
        drawn.append((low + gain * (sampler.estimates - low)).mean(axis=0))
        smooth.append(sampler.expected(gain).mean(axis=0))
    own = crossed(features)
    batches = np.array([np.array(drawn) - np.array(smooth)]).reshape(20, -1, *own.shape)
    gap = batches.mean(axis=1)
    error = gap.std(axis=0, ddof=1) / np.sqrt(20)
    z = gap.mean(axis=0)[own] / error[own]
    assert np.abs(z).max() < 5.0
    assert np.std(smooth, axis=0)[own].mean() < np.std(drawn, axis=0)[own].mean()


def test_expected_blocks_are_what_draws_average_to() -> None:
    features = Features((4, 3))
    random = np.random.default_rng(5)
    blocks = Blocks(features, crossed(features), 4, random)
    size = features.size
    truth = np.zeros((size, size))
    truth[:4, 4:] = 0.3 * np.outer(random.normal(size=4), random.normal(size=3))
    truth += truth.T
    gap, ones = np.repeat(truth[None], 4, 0), np.ones((4, size, size))
    table, expected = [], []
    for _ in range(2000):
        blocks.sweep(gap, 400.0 * ones, ones)
        table.append(blocks.table.mean(axis=0))
        expected.append(blocks.expected.mean(axis=0))
    np.testing.assert_allclose(np.mean(table, axis=0), np.mean(expected, axis=0), atol=0.006)
    assert not np.mean(expected, axis=0)[~crossed(features)].any()


def test_concentrations_follow_their_conditional() -> None:
    share = np.random.default_rng(6).dirichlet(np.full(6, 0.4))
    one = Concentrations((6, 2), 40_000, np.random.default_rng(7))
    one.draw(0, np.repeat(share[None], 40_000, 0))
    grid = np.exp(np.linspace(np.log(0.05), np.log(20.0), 24))
    levels = np.linspace(np.log(0.05), np.log(20.0), 21)
    level = levels[np.abs(levels - np.log(0.7)).argmin()]
    score = [
        lgamma(6 * a) - 6 * lgamma(a) + a * np.log(share).sum() - (np.log(a) - level) ** 2 / 2
        for a in grid
    ]
    chance = np.exp(np.array(score) - np.max(score))
    chance /= chance.sum()
    wanted = float(chance @ np.log(grid))
    spread = float(np.sqrt(chance @ np.square(np.log(grid) - wanted)))
    logs = np.log(one.values[:, 0])
    assert logs.mean() == pytest.approx(wanted, abs=5 * spread / 200)
    assert logs.std() == pytest.approx(spread, rel=0.03)
    assert (one.values[:, 1] == 1.0).all()


@pytest.mark.slow
def test_attributes_learn_from_each_other_how_even_margins_are() -> None:
    """The first margin drowns in noise; the others are known, and even or lopsided."""
    cards = (6,) * 6
    features = Features(cards)
    even, lopsided = np.full(6, 1 / 6), np.array([0.9, 0.06, 0.02, 0.01, 0.006, 0.004])
    deviation = np.full(features.size, 0.02)
    deviation[:6] = 1.0
    apart = []
    for margin in (even, lopsided):
        stats = [observed(features, [margin] * 6, 0.02, seed, deviation) for seed in range(3)]
        fits = [low_rank.fit(features, one) for one in stats]
        spread = [np.square(post.means[:6]).sum() for post in fits]
        apart.append(np.mean(spread))
    assert apart[0] < 0.3 * apart[1]


def test_only_domains_of_several_categories_draw_a_level() -> None:
    random = np.random.default_rng(8)
    before = random.bit_generator.state
    Concentrations((2, 2, 2), 4, random).draw_level()
    assert random.bit_generator.state == before


def test_first_means_are_those_of_margins_without_empty_cells() -> None:
    features = Features((2, 4, 3))
    margins = [np.array([1.0, 0.0]), np.array([1.0, 0.0, 0.0, 0.0]), np.full(3, 1 / 3)]
    means = observed(features, margins, 0.5, 9).valid_means(features)
    for i in range(3):
        table = features.margin(i, means)
        assert table.min() > 0.0
        assert table.sum() == pytest.approx(1.0)
