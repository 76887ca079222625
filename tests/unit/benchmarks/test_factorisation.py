"""Check the errors of unbiased mechanisms against explicit matrices of probabilities."""

from __future__ import annotations

from itertools import combinations, permutations
from math import exp, log

import numpy as np
import pytest

from benchmarks.accuracy.factorisation import Mixtures


def _channel(members: np.ndarray, d: int, epsilon: float) -> np.ndarray:
    """Return the probabilities of each flip and permutation: shape (reports, records)."""
    cells = np.arange(1 << d)
    bits = (cells[:, None] >> np.arange(d)) & 1
    rows = []
    for order in permutations(range(d)):
        moved = (bits[:, order] << np.arange(d)).sum(axis=1)
        for flip in cells:
            weight = np.where(members[moved ^ flip], exp(epsilon), 1.0)
            rows.append(weight)
    table = np.array(rows)
    return np.asarray(table / table.sum(axis=0))


def _error(channel: np.ndarray, d: int, k: int) -> float:
    """Return the mean error of a table for one report of even records, by least squares."""
    cells = np.arange(1 << d)
    workload = []
    for own in combinations(range(d), k):
        code = sum(((cells >> i) & 1) << place for place, i in enumerate(own))
        workload.append(code == np.arange(1 << k)[:, None])
    tables = np.concatenate(workload).astype(float)
    information = channel.T @ (channel / channel.sum(axis=1, keepdims=True))
    # Estimates of the shares have this covariance; what the records themselves add is 1 a cell.
    spread = tables @ np.linalg.inv(information) @ tables.T / len(cells)
    known = tables @ np.eye(len(cells)) @ tables.T / len(cells)
    return float(np.trace(spread - known)) / len(workload)


@pytest.mark.parametrize(("d", "k"), [(2, 1), (2, 2), (3, 2), (3, 3)])
def test_errors_are_those_of_the_matrix(d: int, k: int) -> None:
    mixtures, random = Mixtures(d, k, 1.3), np.random.default_rng(d)
    members = random.random(1 << d) < 0.4
    members[0] = True
    channel = _channel(members, d, 1.3)
    assert np.log(channel.max(axis=1) / channel.min(axis=1)).max() == pytest.approx(1.3)
    expected = _error(channel, d, k)
    found = mixtures.error(np.ones(1), mixtures.information(members)[None])
    assert found == pytest.approx(expected)
    assert found >= mixtures.bound


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0])
def test_randomised_response_is_the_best_for_one_bit(epsilon: float) -> None:
    mixtures = Mixtures(1, 1, epsilon)
    exact = 0.5 * (((exp(epsilon) + 1.0) / (exp(epsilon) - 1.0)) ** 2 - 1.0)
    assert mixtures.search(np.random.default_rng(1), tries=2) == pytest.approx(exact)
    assert mixtures.bound <= exact


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_the_search_finds_what_all_sets_of_three_bits_reach(epsilon: float) -> None:
    mixtures = Mixtures(3, 2, epsilon)
    every = [np.array([(s >> c) & 1 for c in range(8)], bool) for s in range(1, 255)]
    informations = np.array([mixtures.information(members) for members in every])
    best = mixtures.error(mixtures.best_weights(informations), informations)
    assert mixtures.search(np.random.default_rng(1), tries=8) == pytest.approx(best, rel=1e-3)
    assert mixtures.bound <= best


def test_the_bound_is_close_where_noise_is_high() -> None:
    for epsilon in (0.2, log(3.0)):
        mixtures = Mixtures(8, 3, epsilon)
        reached = mixtures.search(np.random.default_rng(1), tries=8)
        assert mixtures.bound <= reached <= 1.1 * mixtures.bound
