"""Check loadings of ordered categories against dense linear algebra."""

from __future__ import annotations

import numpy as np
import pytest

from calmstream.estimators.noise_aware.input.features import Features
from calmstream.estimators.noise_aware.input.statistics import Statistics
from calmstream.estimators.noise_aware.models import low_rank
from calmstream.estimators.noise_aware.models.lines import Lines, directions
from calmstream.estimators.noise_aware.priors import LINE_SHARE, LINE_WEIGHTS
from tests.support.noise_aware import crossed

Floats = np.ndarray
FEATURES = Features((5, 2, 3))
PLACES = (np.array([2.0, 0.0, np.nan, 1.0, 3.0]), None, np.array([0.0, 1.0, 2.0]))
MARGIN = np.array([0.3, 0.1, 0.15, 0.25, 0.2])


def lines() -> Lines:
    found = Lines(FEATURES, PLACES)
    means = np.zeros(FEATURES.size)
    means[FEATURES.slices[0]] = np.sqrt(5.0) * (MARGIN - 0.2)
    found.update(means)
    return found


def covariance(i: int) -> Floats:
    place = PLACES[i]
    assert place is not None
    own = directions(place, MARGIN if i == 0 else np.full(3, 1.0 / 3.0))
    along = own * (LINE_SHARE * len(own) * np.array(LINE_WEIGHTS)) @ own.T
    return np.asarray((1.0 - LINE_SHARE) * np.eye(len(own)) + along)


def test_directions_are_functions_of_the_place() -> None:
    found = lines()
    assert (0 in found, 1 in found, 2 in found) == (True, False, True)
    place = PLACES[0]
    assert place is not None
    own = directions(place, MARGIN)
    np.testing.assert_allclose(np.square(own).sum(axis=0), 1.0)
    assert own[2] == pytest.approx([0.0, 0.0])  # the label without a place
    # In units of the features' deviations, so that the covariance with any attribute sums to 0.
    scores = own * np.sqrt((1.0 - MARGIN) / MARGIN)[:, None]
    np.testing.assert_allclose(MARGIN @ scores, 0.0, atol=1e-12)
    assert MARGIN @ (scores[:, 0] * scores[:, 1]) == pytest.approx(0.0, abs=1e-12)
    there = np.array([1, 3, 0, 4])  # the labels in their order
    steps = np.diff(scores[there], axis=0)
    np.testing.assert_allclose(steps[:, 0], steps[0, 0])
    np.testing.assert_allclose(np.diff(steps[:, 1]), np.diff(steps[:, 1])[0])


def test_the_mean_variance_is_that_without_an_order() -> None:
    for i in (0, 2):
        assert np.trace(covariance(i)) / FEATURES.cardinalities[i] == pytest.approx(1.0)


def test_the_energy_is_that_of_the_inverse_covariance() -> None:
    found, u = lines(), np.random.default_rng(1).normal(size=(2, FEATURES.size, 3))
    expected = np.square(u[:, FEATURES.slices[1]]).sum(axis=1)
    for i in (0, 2):
        own = u[:, FEATURES.slices[i]]
        expected += np.einsum("kcq,cd,kdq->kq", own, np.linalg.inv(covariance(i)), own)
    np.testing.assert_allclose(found.energy(u), expected)


def test_draws_have_the_exact_conditional_mean_and_covariance() -> None:
    found, random = lines(), np.random.default_rng(2)
    rank, r = 2, 5
    root = random.normal(size=(1, r, rank, 4))
    a = np.asarray(root @ root.transpose(0, 1, 3, 2))
    b = 3.0 * random.normal(size=(1, r, rank))
    squares = np.array([0.3, 0.05])
    prior = np.diag(1.0 / squares)[None, None]
    dense = np.linalg.inv(np.kron(covariance(0), np.diag(squares)))
    for c in range(r):
        own = slice(c * rank, (c + 1) * rank)
        dense[own, own] += a[0, c]
    spread = np.linalg.inv(dense)
    mean = spread @ b.ravel()
    many = 20_000
    drawn, conditional = found.draw(
        0, np.repeat(a, many, 0), np.repeat(b, many, 0), np.repeat(prior, many, 0), random
    )
    np.testing.assert_allclose(conditional[0].ravel(), mean)
    flat = drawn.reshape(many, -1)
    deviation = np.sqrt(np.diag(spread))
    # Five standard errors of a mean and of a covariance.
    assert (np.abs(flat.mean(axis=0) - mean) < 5.0 * deviation / np.sqrt(many)).all()
    gap = np.abs(np.cov(flat.T) - spread) / np.outer(deviation, deviation)
    assert gap.max() < 5.0 * np.sqrt(2.0 / many)


def test_attributes_that_rise_together_have_less_error_with_their_places() -> None:
    features, noise = Features((6,) * 6), 0.3
    scores = np.tile((np.arange(6.0) - 2.5) / np.sqrt(35.0 / 12.0), 6)
    apart = crossed(features)
    # Tables (1 + 0.3 a b) / 36, a and b the standardised places; features are 6^1/2 times those.
    true = np.where(apart, 0.3 * np.outer(scores, scores) / 6.0, 0.0)
    errors = []
    for seed in range(3):
        random = np.random.default_rng(seed)
        symmetric = np.triu(random.normal(size=true.shape), 1)
        statistics = Statistics(
            0.02 * random.normal(size=features.size),
            np.full(features.size, 0.02**-2),
            true + noise * (symmetric + symmetric.T) * apart,
            np.where(apart, noise**-2, 0.0),
            {},
        )
        found = [
            low_rank.fit(features, statistics, places).products
            for places in ((), [np.arange(6.0)] * 6)
        ]
        errors.append([np.square(one - true)[apart].sum() for one in found])
    before, after = np.array(errors).sum(axis=0)
    assert after < 0.75 * before
