"""Check the model's rank-one blocks between categorical attributes, and their margins."""

from __future__ import annotations

import numpy as np
import pytest

from calmstream.estimators.noise_aware.input.features import Features
from calmstream.estimators.noise_aware.input.statistics import Statistics
from calmstream.estimators.noise_aware.models import low_rank
from calmstream.estimators.noise_aware.models.blocks import Blocks
from tests.support.noise_aware import crossed

CARDINALITIES = (5, 4, 2, 6)


def observed(
    features: Features, tables: dict[tuple[int, int], np.ndarray], noise: float, seed: int
) -> Statistics:
    """Return statistics of every single attribute and pair with normal noise of a known size."""
    random = np.random.default_rng(seed)
    size = features.size
    means, products = np.zeros(size), np.zeros((size, size))
    for (i, j), table in tables.items():
        parts = features.interactions((i, j), table)
        a, b = features.slices[i], features.slices[j]
        means[a], means[b] = parts[1:, 0], parts[0, 1:]
        products[a, b], products[b, a] = parts[1:, 1:], parts[1:, 1:].T
    symmetric = np.triu(random.normal(size=(size, size)), 1)
    return Statistics(
        means + noise * random.normal(size=size),
        np.full(size, noise**-2),
        products + noise * (symmetric + symmetric.T) * crossed(features),
        np.where(crossed(features), noise**-2, 0.0),
        {},
    )


def independent(margins: list[np.ndarray]) -> dict[tuple[int, int], np.ndarray]:
    """Return the product tables of all pairs."""
    count = len(margins)
    return {
        (i, j): np.outer(margins[i], margins[j]) for i in range(count) for j in range(i + 1, count)
    }


@pytest.fixture
def margins() -> list[np.ndarray]:
    """Return uneven margins."""
    random = np.random.default_rng(5)
    return [random.dirichlet(np.full(r, 3.0)) for r in CARDINALITIES]


def dependent(margins: list[np.ndarray]) -> dict[tuple[int, int], np.ndarray]:
    """Return tables in which only attributes 0 and 3 depend, by one canonical correlation."""
    tables = independent(margins)
    first, second = np.arange(5.0), np.array([1.0, -1.0, 2.0, 0.0, -2.0, 1.0])
    p, q = margins[0], margins[3]
    a, b = first - first @ p, second - second @ q
    tables[0, 3] = np.outer(p, q) * (1.0 + 0.5 * np.outer(a, b) / np.abs(np.outer(a, b)).max())
    return tables


NOISE = 0.04


def error_of_block(tables: dict[tuple[int, int], np.ndarray], seed: int) -> tuple[float, float]:
    """Return the squared error of the dependence of 0 and 3, and that of assuming none."""
    features = Features(CARDINALITIES)
    post = low_rank.fit(features, observed(features, tables, NOISE, seed))
    a, b = features.slices[0], features.slices[3]
    parts = features.interactions((0, 3), tables[0, 3])
    truth = parts[1:, 1:] - np.outer(parts[1:, 0], parts[0, 1:])
    block = post.products[a, b] - np.outer(post.means[a], post.means[b])
    return float(np.square(block - truth).sum()), float(np.square(truth).sum())


@pytest.mark.slow
def test_a_block_of_rank_one_is_found_in_noise_as_large_as_its_elements(
    margins: list[np.ndarray],
) -> None:
    tables = dependent(margins)
    errors = np.array([error_of_block(tables, seed) for seed in range(6)])
    raw = NOISE**2 * 5 * 6
    assert errors[:, 0].mean() < 0.6 * raw
    assert errors[:, 0].mean() < 0.6 * errors[:, 1].mean()


@pytest.mark.slow
def test_without_dependence_blocks_stay_at_nothing(margins: list[np.ndarray]) -> None:
    tables = independent(margins)
    errors = np.array([error_of_block(tables, seed) for seed in range(6)])
    assert errors[:, 0].mean() < 0.04 * NOISE**2 * 5 * 6


@pytest.mark.slow
def test_margins_of_several_categories_are_not_pulled_towards_their_first_codes() -> None:
    """The conditional of a split is symmetric in its two categories: even data stay even."""
    features = Features((6, 6))
    even = np.full((6, 6), 1.0 / 36)
    means = []
    for seed in range(8):
        post = low_rank.fit(features, observed(features, {(0, 1): even}, 0.3, seed))
        means.append(post.means - np.mean(post.means[:6]))
    # With 8 fits of noise 0.3, each mean of means has standard error below 0.11.
    assert np.abs(np.mean(means, axis=0)).max() < 5 * 0.11


def test_all_binary_domains_have_no_blocks() -> None:
    features = Features((2, 2, 2))
    blocks = Blocks(features, crossed(features), 2, np.random.default_rng(1))
    ones = np.ones((2, 3, 3))
    blocks.sweep(ones, ones, ones)
    assert not blocks.table.any()


def test_exact_statistics_give_back_the_block(margins: list[np.ndarray]) -> None:
    features, tables = Features(CARDINALITIES), dependent(margins)
    post = low_rank.fit(features, observed(features, tables, 1e-3, 3))
    for (i, j), table in tables.items():
        parts = features.interactions((i, j), table)[1:, 1:]
        block = post.products[features.slices[i], features.slices[j]]
        assert np.abs(block - parts).max() < 0.02
