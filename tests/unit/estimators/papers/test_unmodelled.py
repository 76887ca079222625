"""The error of reconstruction: its formula against enumeration, its size against simulation."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from calmstream.estimators import methods
from calmstream.estimators.domain import Domain
from calmstream.estimators.methods.base import Request
from calmstream.estimators.papers.calm.unmodelled import (
    DECAY,
    MAX_ORDER,
    USUAL,
    missing_shares,
    pair_size,
    variance,
)
from calmstream.evaluation.population import collect, local_plan
from tests.support.noise_aware import chain

MARGINS = [np.array([0.7, 0.3]), np.array([0.2, 0.5, 0.3]), np.array([0.9, 0.1])]


def test_the_variance_is_the_sum_over_all_sets() -> None:
    expected = np.zeros((2, 3, 2))
    for order in (2, 3):
        for members in combinations(range(3), order):
            part = np.ones(())
            for axis, m in enumerate(MARGINS):
                part = np.multiply.outer(part, m * (1 - m) if axis in members else m**2)
            expected += 0.04 * DECAY ** (order - 2) * part
    found = variance(MARGINS, [0.0, 0.0, 1.0, 1.0], 0.04)
    assert found == pytest.approx(expected.ravel())
    # Sets that views hold add nothing.
    assert variance(MARGINS, [0.0] * 4, 0.04) == pytest.approx(0.0)


def test_missing_shares_are_those_of_an_enumeration() -> None:
    views = [frozenset(v) for v in ((0, 1, 2), (1, 2, 3), (4, 9), (7,))]
    attributes = (0, 1, 2, 3, 4)
    expected = [0.0, 0.0]
    for order in range(2, MAX_ORDER + 1):
        sets = [frozenset(s) for s in combinations(attributes, order)]
        expected.append(np.mean([not any(s <= v for v in views) for s in sets]))
    assert missing_shares(attributes, views) == pytest.approx(expected)
    assert missing_shares((1, 2), views) == [0.0, 0.0, 0.0]
    assert missing_shares((3,), views) == [0.0, 0.0]


@pytest.mark.parametrize("noise", [1e-4, 4e-3])
def test_the_size_of_pairs_is_found_beneath_noise(noise: float) -> None:
    """Tables of two bits of correlations N(0, 0.2^2), with noise on the interaction."""
    random = np.random.default_rng(3)
    found = []
    for _ in range(40):
        measured = []
        for _ in range(100):
            a, b = random.uniform(0.2, 0.8, 2)
            c = random.normal(0, 0.2) * np.sqrt(a * (1 - a) * b * (1 - b))
            c += random.normal(0, np.sqrt(noise)) / 2  # a direction is spread over four cells
            sign = np.array([[1, -1], [-1, 1]])
            measured.append((np.outer([a, 1 - a], [b, 1 - b]) + c * sign, noise))
        found.append(pair_size(measured))
    assert abs(np.mean(found) - 0.04) < 0.006


def test_without_information_the_usual_size_is_taken() -> None:
    assert pair_size([]) == USUAL
    assert pair_size([(np.full((2, 2), 0.25), 1e6)]) == pytest.approx(USUAL)
    # As many independent pairs as one likes: no dependence beyond the usual is left.
    assert pair_size([(np.full((2, 2), 0.25), 1e-9)] * 9) == pytest.approx(0.0, abs=1e-6)


def test_intervals_of_reconstructed_tables_hold_where_attributes_depend() -> None:
    """In a chain of 12 dependent bits few views leave pairs and triples without a view."""
    domain, n = Domain.binary(12), 60_000
    plan = local_plan(methods.get("calm"), Request(domain, "2", n, 2, parameters={"theta": 2e-4}))
    held, triples = [], list(combinations(range(12), 3))
    for seed in range(6):
        codes = chain(n, 12, seed)
        model = methods.get("calm").fit(
            plan, collect(plan, codes, np.random.SeedSequence(seed), exact=True)
        )
        for triple in triples[seed::9]:
            marginal = model.marginal(triple)
            assert "maxent" in marginal.flags
            truth = domain.histogram(codes, triple) / n
            held.append(np.mean(np.abs(marginal.table - truth) <= 1.96 * marginal.stderr))
    assert np.mean(held) > 0.9
