"""The Castell inverse against a worked example, exact formulas and dependent data."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.castell.paper import castell, grr, least_epsilon, least_n, most_w, shared
from calmstream.estimators.numerics.block_inverse import (
    AxisChannel,
    expected_sse,
    noise,
    noise_given_truth,
    unmix,
)
from calmstream.estimators.papers.castell import schemes
from calmstream.estimators.papers.castell.product_grr import ProductGRR, channels
from calmstream.estimators.papers.castell.rr_clusters import cluster
from tests.support.mechanisms import matrix, output_tallies
from tests.support.plans import mixed_domain

# The paper's Appendix B: epsilon = ln 3 per attribute, ten respondents.
LN3 = (AxisChannel((0,), 2, 0.5, 0.25), AxisChannel((1,), 2, 0.5, 0.25))
OBSERVED = np.array([[3.0, 1.0], [3.0, 3.0]]) / 10
TRUTH = np.array([[4.0, 0.0], [2.0, 4.0]]) / 10


def mse(table: np.ndarray) -> float:
    return float(np.square(table - TRUTH).mean())


def test_the_worked_example_digit_for_digit() -> None:
    joint = schemes.joint(OBSERVED, LN3, 10).table
    assert joint.round(12).tolist() == [[0.45, -0.15], [0.25, 0.45]]
    assert round(mse(joint), 12) == 0.0075
    assert round(float(np.abs(joint - TRUTH).max()), 12) == 0.15
    apart = schemes.independent(OBSERVED, LN3, 10).table
    assert apart.round(12).tolist() == [[0.21, 0.09], [0.49, 0.21]]
    assert apart.sum(axis=1).round(12).tolist() == [0.3, 0.7]
    assert apart.sum(axis=0).round(12).tolist() == [0.7, 0.3]
    cut = schemes.truncated(OBSERVED, LN3, 10)
    assert cut.table.round(12).tolist() == [[0.3, 0.0], [0.25, 0.3]]
    assert round(mse(cut.table), 12) == 0.005625
    assert cut.clipped


def mechanism() -> ProductGRR:
    blocks = ((0, 2), (1,), (3,))
    return ProductGRR("3.7", 2 * 3 * 4 * 2, (2, 3, 4, 2), blocks, ((0, 1, 2, 3),))


def dense(m: ProductGRR, attributes: tuple[int, ...]) -> np.ndarray:
    """Return P(observed cell given true cell) of a table, from the exact channel of records."""
    of = mixed_domain(*m.axes).cells(
        np.stack(np.unravel_index(np.arange(48), m.axes), 1), attributes
    )
    # Each output of the channel counts as one record of the only table, that over all attributes.
    projected = matrix(m) @ output_tallies(m) @ np.eye(of.max() + 1)[of]
    first = [of.tolist().index(c) for c in range(of.max() + 1)]
    assert np.allclose(projected, projected[first][of]), "the same for all records of a true cell"
    return projected[first]


@pytest.mark.parametrize("attributes", [(0, 1, 2, 3), (0, 2), (1,), (0,), (2, 3), (0, 1, 3)])
def test_the_inverse_undoes_the_exact_channel_of_every_projection(
    attributes: tuple[int, ...],
) -> None:
    m = mechanism()
    channel = dense(m, attributes)
    shape = tuple(m.axes[i] for i in attributes)
    rng = np.random.default_rng(5)
    observed = rng.dirichlet(np.ones(len(channel)))
    expected = np.linalg.solve(channel.T, observed)
    got = unmix(observed.reshape(shape), channels(m, attributes))
    assert got.reshape(-1) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("attributes", [(0, 1, 2, 3), (0, 3), (2,)])
def test_variance_and_expected_error_are_exact(attributes: tuple[int, ...]) -> None:
    m, n = mechanism(), 7
    channel, factors = dense(m, attributes), channels(m, attributes)
    shape = tuple(m.axes[i] for i in attributes)
    truth = np.random.default_rng(6).dirichlet(np.ones(len(channel)))
    inverse = np.linalg.inv(channel)  # row: observed cell, column: what it adds to each cell
    variance = (truth @ channel @ inverse**2 - truth) / n
    given = noise_given_truth(truth.reshape(shape), factors, n).reshape(-1)
    assert given == pytest.approx(variance, rel=1e-9)
    assert variance.sum() == pytest.approx(expected_sse(factors, n), rel=1e-9)
    # The estimate from observed frequencies has that expectation where nothing is cut off at 0.
    observed = (truth @ channel).reshape(shape)
    assert noise(observed, factors, n).reshape(-1) == pytest.approx(variance, rel=1e-9)


def test_the_hybrid_takes_the_joint_only_where_it_pays() -> None:
    dependent = np.array([[0.5, 0.0], [0.0, 0.5]])
    mixed = dependent
    for f in LN3:
        mixed = f.gap * mixed + f.q * mixed.sum(axis=f.axes, keepdims=True)
    assert schemes.hybrid(mixed, LN3, 1_000_000).joint
    assert not schemes.hybrid(mixed, LN3, 10).joint
    assert not schemes.hybrid(np.full((2, 2), 0.25), LN3, 1_000_000).joint


def test_clusters_merge_the_strongest_pairs_that_fit() -> None:
    v = {(0, 1): 0.9, (1, 2): 0.8, (0, 2): 0.1, (3, 4): 0.5, (2, 3): 0.2}
    assert cluster(v, (4, 4, 4, 2, 2), 0.3, 16) == ((0, 1), (2,), (3, 4))
    assert cluster(v, (4, 4, 4, 2, 2), 0.3, 64) == ((0, 1, 2), (3, 4))
    assert cluster(v, (4, 4, 4, 2, 2), 0.15, 1000) == ((0, 1, 2, 3, 4),)
    assert cluster({}, (2, 3), 0.1, 100) == ((0,), (1,))


def test_the_papers_bounds_and_thresholds() -> None:
    factors = grr((2, 2), 0.5)  # epsilon 1 of both together
    rounding, dependence = schemes.bounds(factors, 10**6)
    assert rounding == pytest.approx(1.03e-5, rel=5e-3)
    assert dependence == 0.25
    # The noise of a cell is larger than the bound, which falls with n and not with its root.
    assert expected_sse(factors, 10**6) / 4 == pytest.approx(4.39e-3**2, rel=5e-3)
    assert most_w(16, 32_561) == pytest.approx(1.374, abs=5e-4)  # Table III
    n = least_n(16, 2, 2.0)
    assert n == pytest.approx(185_628, abs=1)
    for records, joint in ((n * 1.01, True), (n * 0.99, False)):
        observed = np.full((16, 16), 1 / 256)
        chosen = schemes.hybrid_by_bounds(observed, grr((16, 16), 1.0), int(records))
        assert chosen.joint == joint
    assert least_epsilon(16, 2, int(n)) == pytest.approx(2.0, abs=1e-4)


def test_the_inverse_of_any_randomisation_matrices() -> None:
    """Check Algorithm 3 on matrices that are no randomised response (Definition 1)."""
    random = np.random.default_rng(3)
    ordered = 0.5 ** np.abs(np.subtract.outer(np.arange(4), np.arange(4)))
    matrices = [ordered / ordered.sum(axis=1, keepdims=True), random.dirichlet(np.ones(3), 3)]
    truth = random.dirichlet(np.ones(12)).reshape(4, 3)
    reported = np.einsum("ab,ai,bj->ij", truth, *matrices)
    np.testing.assert_allclose(castell(reported, matrices), truth, atol=1e-12)
    whole = np.linalg.inv(np.kron(*matrices).T) @ reported.ravel()
    np.testing.assert_allclose(castell(reported, matrices).ravel(), whole, atol=1e-12)


@pytest.mark.parametrize("v", [0.0, 0.3, 1.0])
def test_the_synthetic_population_has_its_cramers_v(v: float) -> None:
    table = shared(v, 7)
    apart = np.outer(table.sum(axis=1), table.sum(axis=0))
    assert np.sqrt((np.square(table - apart) / apart).sum() / 6) == pytest.approx(v)
