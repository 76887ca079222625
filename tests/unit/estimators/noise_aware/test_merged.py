"""Check moments between merged levels, and their expansion, against tables without noise."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from calmstream.estimators.noise_aware.input.features import Features
from calmstream.estimators.noise_aware.input.statistics import Statistics
from calmstream.estimators.noise_aware.models.merged import MOST_LEVELS, Margin, Merged
from calmstream.estimators.noise_aware.models.posterior import Posterior
from tests.support.noise_aware import plain_levels

CARDS = (60, 50, 5, 2)


def merged_of(margins: dict[int, np.ndarray]) -> Merged:
    """Merge the first two attributes; the last label of the second has no place in the order."""
    levels = {0: plain_levels(60), 1: plain_levels(50, without_place=1)}
    return Merged.of(Features(CARDS), levels, margins)


@pytest.fixture
def table() -> np.ndarray:
    random = np.random.default_rng(6)
    centre = np.exp(-0.5 * np.square(np.linspace(-3.0, 3.0, 60)))[:, None, None, None]
    found = centre * random.gamma(0.7, size=CARDS)
    return np.asarray(found / found.sum())


def margins_of(table: np.ndarray) -> dict[int, np.ndarray]:
    return {i: table.sum(axis=tuple(a for a in range(4) if a != i)) for i in (0, 1)}


def moments(features: Features, table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return exact first and second moments; blocks of one attribute are 0."""
    means, products = np.zeros(features.size), np.zeros((features.size, features.size))
    for i, j in combinations(range(table.ndim), 2):
        rest = tuple(a for a in range(table.ndim) if a not in (i, j))
        parts = features.interactions((i, j), table.sum(axis=rest))
        a, b = features.slices[i], features.slices[j]
        means[a], means[b] = parts[1:, 0], parts[0, 1:]
        products[a, b], products[b, a] = parts[1:, 1:], parts[1:, 1:].T
    return means, products


def summed(merged: Merged, table: np.ndarray) -> np.ndarray:
    for axis, member in enumerate(merged.members):
        table = np.moveaxis(np.tensordot(table, member, (axis, 1)), -1, axis)
    return table


def test_frequent_levels_stay_alone_and_labels_without_a_place_too(table: np.ndarray) -> None:
    margins = margins_of(table)
    margins[0] = margins[0] * 0.4
    margins[0][[7, 30]] += 0.3
    merged = merged_of(margins)
    parents = merged.parents[0]
    assert (np.diff(parents) >= 0).all()
    assert (np.diff(parents) <= 1).all()
    assert (np.bincount(parents)[parents[[7, 30]]] == 1).all()
    assert merged.features.cardinalities[0] <= MOST_LEVELS
    assert merged.parents[1].tolist().count(merged.parents[1][-1]) == 1
    assert [merged.merges(i) for i in range(4)] == [True, True, False, False]


@pytest.mark.parametrize("place", [0, 30, 59])
def test_nearly_all_probability_on_one_level_leaves_levels_to_model(place: int) -> None:
    one = np.where(np.arange(60) == place, 1.0 - 59e-9, 1e-9)
    merged = merged_of({0: one, 1: np.full(50, 0.02)})
    assert merged.features.cardinalities[0] >= 3
    assert np.bincount(merged.parents[0])[merged.parents[0][place]] <= 2


def test_moments_of_merged_levels_are_those_of_the_summed_table(table: np.ndarray) -> None:
    merged = merged_of(margins_of(table))
    means, products = moments(merged.labels, table)
    known = np.where(products != 0.0, 50.0, 0.0)
    found = merged.statistics(Statistics(means, np.full(means.size, 50.0), products, known, {}))
    one, two = moments(merged.features, summed(merged, table))
    np.testing.assert_allclose(found.means, one, atol=1e-12)
    np.testing.assert_allclose(found.products, two, atol=1e-12)
    assert (found.product_precision[two == 0.0] == 0.0).all()


def test_precisions_are_those_of_sums_of_independent_cells(table: np.ndarray) -> None:
    """A merged feature is a linear function of the table's noise, which is drawn."""
    merged = merged_of(margins_of(table))
    random = np.random.default_rng(9)
    labels, own = merged.labels, merged.features
    draws = []
    for _ in range(800):
        noise = random.normal(size=(60, 50)) / np.sqrt(3000.0)
        cells = summed_pair(merged, noise - noise.mean())
        draws.append(own.interactions((0, 1), cells)[1:, 1:])
    means, products = np.zeros(labels.size), np.ones((labels.size, labels.size))
    found = merged.statistics(Statistics(means, means + 1.0, products, products, {}))
    stated = 1.0 / found.product_precision[own.slices[0], own.slices[1]]
    counts = [np.bincount(parent) / parent.size for parent in merged.parents[:2]]
    free = np.outer(1.0 - counts[0], 1.0 - counts[1])
    ratio = np.var(draws, axis=0) / (stated * free)
    # Unequal numbers of labels add the noise of first moments, which single views lower.
    assert np.median(ratio) == pytest.approx(1.0, abs=0.05)
    assert ratio.max() < 1.5


def summed_pair(merged: Merged, table: np.ndarray) -> np.ndarray:
    return np.asarray(merged.members[0] @ table @ merged.members[1].T)


def posterior_of(means: np.ndarray, products: np.ndarray) -> Posterior:
    return Posterior(means, means**2, products, products**2, 0.1, means[None], np.stack([products]))


def test_expanded_pairs_are_independent_inside_of_merged_levels(table: np.ndarray) -> None:
    margins = margins_of(table)
    merged = merged_of(margins)
    posterior = posterior_of(*moments(merged.features, summed(merged, table)))
    own = {i: Margin(m, m[None]) for i, m in margins.items()}
    found = merged.expanded(posterior, own)
    coarse = summed(merged, table).sum(axis=(2, 3))
    parents = np.ix_(merged.parents[0], merged.parents[1])
    shares = [m / (merged.members[i] @ m)[merged.parents[i]] for i, m in margins.items()]
    expected = coarse[parents] * np.outer(*shares)
    for means, products in (
        (found.means, found.products),
        (found.drawn_means[0], found.drawn_products[0]),
    ):
        pair = merged.labels.pair(0, 1, (margins[0], margins[1]), means, products)
        np.testing.assert_allclose(pair, expected, atol=1e-12)
    exact = moments(merged.labels, table)[0]
    np.testing.assert_allclose(found.means, exact, atol=1e-12)


def test_correlations_stay_where_margins_change() -> None:
    features, random = Features((4, 3)), np.random.default_rng(2)
    before, after = (
        np.concatenate([2.0 * p - 0.5, 3.0**0.5 * (q - 1.0 / 3.0)])
        for p, q in zip(random.dirichlet([5.0] * 4, 2), random.dirichlet([5.0] * 3, 2), strict=True)
    )
    products = np.outer(before, before) + 0.1 * random.normal(size=(7, 7))
    merged = Merged.of(features, {}, {})
    tables = [features.margin(i, after) for i in (0, 1)]
    margins = {i: Margin(table, table[None]) for i, table in enumerate(tables)}

    def correlation(means: np.ndarray, moments: np.ndarray) -> np.ndarray:
        deviation = np.sqrt(features.variance(means))
        return np.asarray((moments - np.outer(means, means)) / np.outer(deviation, deviation))

    found = merged.expanded(posterior_of(before, products), margins)
    np.testing.assert_allclose(found.means, after)
    np.testing.assert_allclose(correlation(after, found.products), correlation(before, products))
    assert np.abs(correlation(after, products) - correlation(before, products)).max() > 0.05


def test_a_margin_with_the_shares_of_merged_levels(table: np.ndarray) -> None:
    merged = merged_of(margins_of(table))
    means, products = moments(merged.features, summed(merged, table))
    even = np.full(60, 1.0 / 60.0)
    found = merged.with_shares(posterior_of(means, products), 0, Margin(even, even[None]))
    exact = margins_of(table)[0]
    for mean in (found.mean, found.drawn[0]):
        np.testing.assert_allclose(merged.members[0] @ mean, merged.members[0] @ exact)
        inside = np.flatnonzero(merged.parents[0] == 0)
        assert mean[inside] == pytest.approx(mean[inside[0]])
