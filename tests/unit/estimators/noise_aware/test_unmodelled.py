"""Intervals of tables of three categorical attributes, of which views hold only the pairs."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from calmstream.estimators import methods
from calmstream.estimators.domain import Attribute, Codes, Domain
from calmstream.estimators.noise_aware.model import NoiseAwareModel
from calmstream.estimators.noise_aware.priors import THIRD_OF_PAIRS
from calmstream.estimators.noise_aware.tables.moments import MomentTables
from calmstream.estimators.plan.request import Request
from calmstream.evaluation.population import collect
from calmstream.evaluation.rounds import local_plan
from tests.support.noise_aware import without_joint_of_categories

LABELS, D, N = ("x", "y", "z"), 5, 1 << 18
DOMAIN = Domain(tuple(Attribute(f"a{i}", LABELS) for i in range(D)))
SCALES = {1: 0.5, 2: 0.35, 3: 0.25}
"""Deviations of log-linear weights by order."""


def people(seed: int) -> Codes:
    """Return records whose attributes depend in pairs and in threes."""
    random, shape = np.random.default_rng(seed), (len(LABELS),) * D
    grid, log = np.indices(shape), np.zeros(shape)
    for order, scale in SCALES.items():
        for members in combinations(range(D), order):
            weights = random.normal(0, scale, (len(LABELS),) * order)
            log += weights[tuple(grid[i] for i in members)]
    share = np.exp(log).ravel() / np.exp(log).sum()
    cells = random.choice(share.size, N, p=share)
    return np.stack(np.unravel_index(cells, shape), axis=1).astype(np.uint16)


def fitted(seed: int) -> tuple[Codes, NoiseAwareModel]:
    plan = local_plan(methods.get("noise-aware"), Request(DOMAIN, "2", N, 2))
    codes = people(seed)
    tallies = collect(plan, codes, np.random.SeedSequence(seed), exact=True)
    model = methods.get("noise-aware").fit(plan, tallies)
    assert isinstance(model, NoiseAwareModel)
    return codes, model


@pytest.mark.parametrize("seed", [0, 1])
def test_intervals_hold_however_small_the_residuals_of_pairs_are(seed: int) -> None:
    codes, model = fitted(seed)
    held = []
    for triple in combinations(range(D), 3):
        marginal = model.marginal(triple)
        assert "covered" not in marginal.flags
        truth = DOMAIN.histogram(codes, triple) / N
        held.append(np.mean(np.abs(marginal.table - truth) <= 1.96 * marginal.stderr))
    assert np.mean(held) > 0.9


def test_the_size_is_a_part_of_the_pairs_of_the_table() -> None:
    with without_joint_of_categories():
        _, model = fitted(2)
    tables, features = model.fitted, model._features
    assert isinstance(tables, MomentTables)
    post = tables._posterior
    squares = []
    for i, j in combinations((0, 2, 3), 2):
        a, b = features.slices[i], features.slices[j]
        own = post.products[a, b] - np.outer(post.means[a], post.means[b])
        units = features.variance(post.means) * np.square(features.unit)
        squares.append(np.square(own).sum() / (units[a].sum() * units[b].sum()))
    assert tables._third((0, 2, 3)) == pytest.approx(THIRD_OF_PAIRS**2 * np.mean(squares))
    assert tables._third((0, 2, 3)) > 10 * post.residual**2
