"""Check what pairs say about single levels against tables that obey the model exactly."""

from __future__ import annotations

import numpy as np
import pytest

from calmstream.estimators.noise_aware.input.features import Features
from calmstream.estimators.noise_aware.input.statistics import Statistics
from calmstream.estimators.noise_aware.models import inside_merged
from calmstream.estimators.noise_aware.models.inside_merged import with_pairs
from calmstream.estimators.noise_aware.models.merged import Merged
from calmstream.estimators.noise_aware.models.posterior import Posterior
from tests.support.noise_aware import plain_levels

R, S = 60, 50
FEATURES = Features((R, S))
OWN, OTHER = FEATURES.slices


@pytest.fixture
def margins() -> list[np.ndarray]:
    """Two margins; one label of the second has most of the probability."""
    random = np.random.default_rng(4)
    first, second = random.dirichlet([2.0] * R), random.dirichlet([2.0] * S)
    second = 0.2 * second + 0.8 * (np.arange(S) == 20)
    return [first, second]


def merged_of(margins: list[np.ndarray]) -> Merged:
    levels = {0: plain_levels(R), 1: plain_levels(S)}
    return Merged.of(FEATURES, levels, dict(enumerate(margins)))


def table_of(merged: Merged, margins: list[np.ndarray], *, depend: bool) -> np.ndarray:
    """A table in which labels are independent inside of merged levels."""
    random = np.random.default_rng(5)
    sums = [merged.members[i] @ margins[i] for i in (0, 1)]
    coarse = np.outer(*sums) * np.exp(random.normal(size=[s.size for s in sums]) * depend * 0.5)
    for _ in range(200):
        coarse *= (sums[0] / coarse.sum(axis=1))[:, None]
        coarse *= sums[1] / coarse.sum(axis=0)
    inside = [margins[i] / (merged.members[i].T @ sums[i]) for i in (0, 1)]
    return np.asarray(coarse[np.ix_(*merged.parents)] * np.outer(*inside))


def statistics_of(table: np.ndarray, precision: float, mean_precision: float) -> Statistics:
    parts = FEATURES.interactions((0, 1), table)
    means = np.concatenate([parts[1:, 0], parts[0, 1:]])
    products, known = np.zeros((R + S, R + S)), np.zeros((R + S, R + S))
    products[OWN, OTHER], products[OTHER, OWN] = parts[1:, 1:], parts[1:, 1:].T
    known[OWN, OTHER] = known[OTHER, OWN] = precision
    return Statistics(means, np.full(R + S, mean_precision), products, known, {})


def posterior_of(merged: Merged, table: np.ndarray) -> Posterior:
    coarse = merged.members[0] @ table @ merged.members[1].T
    parts = merged.features.interactions((0, 1), coarse)
    means = np.concatenate([parts[1:, 0], parts[0, 1:]])
    products = np.zeros((means.size, means.size))
    a, b = merged.features.slices
    products[a, b], products[b, a] = parts[1:, 1:], parts[1:, 1:].T
    return Posterior(means, means**2, products, products**2, 0.1, means[None], products[None])


@pytest.mark.parametrize("depend", [False, True])
@pytest.mark.parametrize("i", [0, 1])
def test_pairs_without_noise_give_the_exact_means(
    margins: list[np.ndarray], i: int, *, depend: bool
) -> None:
    """The means themselves say nothing here: all that is known comes from the pairs."""
    merged = merged_of(margins)
    table = table_of(merged, margins, depend=depend)
    exact = statistics_of(table, 1e6, 0.0)
    wrong = Statistics(0.0 * exact.means, exact.mean_precision, exact.products,
                       exact.product_precision, {})  # fmt: skip
    found = with_pairs(merged, wrong, posterior_of(merged, table), margins[i], i)
    own = FEATURES.slices[i]
    np.testing.assert_allclose(found.means[own], exact.means[own], atol=1e-6)
    assert (found.mean_precision[own] > 0.0).all()
    rest = FEATURES.slices[1 - i]
    np.testing.assert_array_equal(found.means[rest], 0.0)
    np.testing.assert_array_equal(found.products, exact.products)


def test_the_stated_precision_is_that_of_noisy_pairs(margins: list[np.ndarray]) -> None:
    """The noise of the table's cells is drawn; a frequent label tells more than all sums."""
    merged = merged_of(margins)
    table, random = table_of(merged, margins, depend=True), np.random.default_rng(8)
    posterior, deviation = posterior_of(merged, table), 1e-3
    precision = 1.0 / (R * S * deviation**2)
    errors, stated = [], []
    for _ in range(400):
        noise = deviation * random.normal(size=(R, S))
        noisy = statistics_of(table + noise - noise.mean(), precision, 0.0)
        found = with_pairs(merged, noisy, posterior, margins[0], 0)
        errors.append((found.means - statistics_of(table, 1.0, 0.0).means)[OWN])
        stated.append(found.mean_precision[OWN])
    ratio = np.var(errors, axis=0) * np.mean(stated, axis=0) / (1.0 - 1.0 / R)
    assert np.median(ratio) == pytest.approx(1.0, abs=0.08)
    assert ratio.max() < 1.5
    # The sum over the labels of the other attribute has the precision of one product.
    assert np.median(stated) > 5.0 * precision


def test_levels_unlike_their_merged_level_lower_the_precision(
    margins: list[np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    merged = merged_of(margins)
    table = table_of(merged, margins, depend=False)
    posterior = posterior_of(merged, table)
    random = np.random.default_rng(9)
    deviations = [np.sqrt(m * (1.0 - m)) for m in margins]
    unlike = 0.3 * random.normal(size=(R, S)) * np.outer(*deviations) / (R * S) ** 0.25
    unlike -= unlike.mean(axis=0)
    unlike -= unlike.mean(axis=1, keepdims=True)
    noisy = statistics_of(table + unlike, 1e9, 0.0)
    truth = noisy.means[OWN]
    found = with_pairs(merged, noisy, posterior, margins[0], 0)
    z = (found.means[OWN] - truth) * np.sqrt(found.mean_precision[OWN])
    assert 0.5 < np.sqrt(np.square(z).mean()) < 2.0
    monkeypatch.setattr(inside_merged, "ROUNDS", 0)  # as if merged levels explained everything
    sure = with_pairs(merged, noisy, posterior, margins[0], 0)
    z = (sure.means[OWN] - truth) * np.sqrt(sure.mean_precision[OWN])
    assert np.sqrt(np.square(z).mean()) > 10.0
