"""Check the density of hidden causes: its moments against enumeration, its slopes numerically."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from calmstream.estimators.noise_aware.density import Posterior, State
from calmstream.estimators.noise_aware.layout import Layout
from calmstream.estimators.noise_aware.sampler import Effort, Sampler
from calmstream.estimators.noise_aware.statistics import Signs, Statistics, Targets
from tests.support.noise_aware import domain_of

KINDS = [(2, 2, 2, 2), (3, 2, 4)]


def _problem(cards: tuple[int, ...]) -> tuple[Posterior, State]:
    random, layout = np.random.default_rng(1), Layout(cards)
    size, apart = layout.size, layout.owner[:, None] != layout.owner
    products = random.normal(size=(size, size)) * 0.2 * apart
    products = products + products.T
    block = random.normal(size=[layout.widths[i] for i in (0, 1, 2)]) * 0.1
    statistics = Statistics(
        random.normal(size=size) * 0.2,
        np.full(size, 50.0),
        products,
        40.0 * apart,
        {(0, 1, 2): (block, 30.0)},
    )
    row = np.zeros((1, size), np.float32)
    row[0, :3] = 1.0, 1.0, -1.0
    sign = Signs(row, np.array([0.1], np.float32), np.array([20.0], np.float32))
    targets = Targets(layout, statistics, None if layout.bits else sign)
    sampler = Sampler(domain_of(*cards), targets, Effort(chains=2, causes=2))
    return sampler.problem, sampler.state


@pytest.mark.parametrize("cards", KINDS)
def test_slopes_are_those_of_the_density(cards: tuple[int, ...]) -> None:
    problem, state = _problem(cards)
    state = State(*(part.astype(float) for part in state))
    slope = problem.value(state).slope
    assert slope is not None
    random, step = np.random.default_rng(2), 1e-2
    names = ("theta", "rho", "common") if problem.layout.bits else ("theta", "rho")
    for name in names:
        own, by = getattr(state, name), getattr(slope, name)
        for _ in range(5):
            way = random.normal(size=own.shape)
            ahead, behind = (
                problem.value(state._replace(**{name: own + sign * step * way})).density
                for sign in (1.0, -1.0)
            )
            wanted = (by * way).reshape(2, -1).sum(axis=1)
            np.testing.assert_allclose((ahead - behind) / (2 * step), wanted, rtol=0.02, atol=0.05)


@pytest.mark.parametrize("cards", KINDS)
def test_moments_are_those_of_the_distribution_over_all_records(cards: tuple[int, ...]) -> None:
    problem, state = _problem(cards)
    found, layout = problem.moments(state), problem.layout
    share = found.share[0].T
    if layout.bits:
        share = np.stack([(1 + share) / 2, (1 - share) / 2], axis=2).reshape(len(share), -1)
    ends = np.cumsum(cards)
    second, total = np.zeros((layout.size, layout.size)), 0.0
    for record in product(*map(range, cards)):
        chance = found.weights[0].astype(float)
        for i, c in enumerate(record):
            chance = chance * share[:, ends[i] - cards[i] + c]
        features = np.concatenate([layout.codes(i)[c] for i, c in enumerate(record)])
        total += chance.sum()
        second += chance.sum() * np.outer(features, features)
    assert total == pytest.approx(1.0, abs=1e-5)
    apart = layout.owner[:, None] != layout.owner[None]
    np.testing.assert_allclose(found.second[0][apart], second[apart], atol=1e-5)
