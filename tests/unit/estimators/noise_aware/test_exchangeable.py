"""Check the expected errors of designs for binary attributes against the complete matrices."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from calmstream.estimators.noise_aware.design import allocation
from calmstream.estimators.noise_aware.design.allocation import allocate
from calmstream.estimators.noise_aware.design.exchangeable import Scenario, variances
from calmstream.estimators.noise_aware.priors import DESIGN_FIELD, FIELD_CENTRE, PriorScales


def moments_by_enumeration(scenario: Scenario) -> tuple[list[frozenset[int]], np.ndarray]:
    """Return all sets and the derivatives of their moments, computed from the 2^d cells."""
    d = scenario.attributes
    sets = [frozenset(s) for o in range(1, scenario.top + 1) for s in combinations(range(d), o)]
    signs = 1 - 2 * ((np.arange(1 << d)[:, None] >> np.arange(d)) & 1)
    cells = np.prod((1 + scenario.mean * signs) / 2, axis=1)
    parity = np.stack([signs[:, sorted(s)].prod(axis=1) for s in sets], axis=1)
    mean = cells @ parity
    slope = (parity * cells[:, None]).T @ parity - np.outer(mean, mean)
    modelled = [i for i, s in enumerate(sets) if len(s) <= 1 + len(scenario.scales)]
    chart = np.eye(len(sets))[:, modelled]
    for column, row in enumerate(modelled):
        if len(sets[row]) == 2:
            for i in sets[row]:
                chart[sets.index(frozenset([i])), column] -= scenario.mean
    return sets, slope @ chart


def prior_by_pairs_of_sets(scenario: Scenario, sets: list[frozenset[int]]) -> np.ndarray:
    out = np.zeros((len(sets), len(sets)))
    for a, s in enumerate(sets):
        for b, t in enumerate(sets):
            both = len(s & t)
            if len(s) == len(t) == 1:
                out[a, b] = FIELD_CENTRE**2 + DESIGN_FIELD**2 * both
            elif len(s) == len(t) == 2:
                out[a, b] = scenario.scales[0] ** 2 * (0.5 * (s == t) + 0.125 * both + 0.25)
            elif s == t:
                out[a, b] = scenario.scales[len(s) - 2] ** 2
    return out


@pytest.mark.parametrize(
    "scenario",
    [
        Scenario(6, 0.6, (0.1, 0.05), 6),
        Scenario(7, -0.3, (0.2, 0.1, 0.06), 4),
        Scenario(5, 0.9, (0.2, 0.1, 0.05), 5),
        Scenario(5, 0.0, (0.3,), 4),
        Scenario(3, 0.5, (0.1,), 3),
        Scenario(2, 0.2, (0.1,), 2),
    ],
)
def test_blocks_give_the_variances_of_the_whole_matrices(scenario: Scenario) -> None:
    precision = np.array([[30.0, 20.0, 10.0], [5.0, 0.0, 3.0], [0.0, 0.0, 0.0]])
    precision = precision[:, : min(3, scenario.top)]
    sets, slope = moments_by_enumeration(scenario)
    columns = slope.shape[1]
    prior = prior_by_pairs_of_sets(scenario, sets[:columns])
    for own, got in zip(precision, variances(scenario, precision), strict=True):
        weight = np.array([own[len(s) - 1] if len(s) <= own.size else 0.0 for s in sets])
        curvature = np.linalg.inv(prior) + slope.T @ (weight[:, None] * slope)
        posterior = np.diag(slope @ np.linalg.inv(curvature) @ slope.T)
        by_order = [
            sum(v for v, s in zip(posterior, sets, strict=True) if len(s) == o)
            for o in range(1, scenario.top + 1)
        ]
        np.testing.assert_allclose(got, by_order, rtol=1e-9, atol=1e-12)


def test_pairs_estimate_margins_of_lopsided_attributes_as_well_as_single_views() -> None:
    """A pair's moment contains both margins, each times the other's mean."""
    weights = np.array([[20.0, 0.0], [0.0, 20.0]])
    even, lopsided = (
        variances(Scenario(16, m, (1e-3,), 2), weights)[:, 0] / 16 / (1 - m**2) ** 2
        for m in (0.0, 0.9)
    )
    assert even[1] > 5 * even[0]
    assert lopsided[1] < lopsided[0]


@pytest.mark.parametrize("d", [2, 3, 5, 9, 10, 16, 17, pytest.param(40, marks=pytest.mark.slow)])
@pytest.mark.parametrize("epsilon", ["0.05", "1", "4"])
def test_binary_designs_hold_every_pair_or_spread_evenly(d: int, epsilon: str) -> None:
    for k in {1, 2, min(d, 6)}:
        design = allocate((2,) * d, 20_000, epsilon, k)
        assert design.shares.sum() == pytest.approx(1.0)
        assert (design.shares > 0).all()
        assert len(set(design.views)) == len(design.views)
        assert {len(view) for view in design.views} <= {1, design.size}
        assert 2 <= design.size <= (4 if d <= 9 else 3)
        pairs = {pair for view in design.views for pair in combinations(view, 2)}
        assert pairs == set(combinations(range(d), 2))
        larger = sum(s for v, s in zip(design.views, design.shares, strict=True) if len(v) > 1)
        assert larger >= allocation.FLOOR


def test_more_reports_never_raise_the_expected_error() -> None:
    for d in (4, 12, 30):
        errors = [allocate((2,) * d, n, "0.5", 3).expected[3] for n in (0, 10**3, 10**5, 10**7)]
        assert errors == sorted(errors, reverse=True)
        assert errors[-1] < 0.2 * errors[0]


def test_larger_interactions_are_asked_about_more() -> None:
    def pairs_asked(size: float) -> float:
        allocation = allocate((2,) * 12, 1 << 16, "0.2", 3, PriorScales.of((0.6, size)))
        larger = [len(view) > 1 for view in allocation.views]
        return float(allocation.shares[larger].sum())

    assert pairs_asked(0.01) < pairs_asked(0.1) < pairs_asked(0.4)
