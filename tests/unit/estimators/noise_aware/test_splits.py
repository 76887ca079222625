"""Check the log density of a split against the quadratic form, category by category."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest

from calmstream.estimators.noise_aware.arrays import Floats
from calmstream.estimators.noise_aware.models import splits
from calmstream.estimators.noise_aware.models.quadratic_form import QuadraticForm
from calmstream.estimators.noise_aware.models.splits import SplitDensities

CHAINS, R, UNIT = 2, 5, 0.7
PAIRS = np.array([[0, 3], [4, 1]])


def of_form(products: Floats, m: float, s: float) -> float:
    """Return the log-likelihood of a mean and a deviation from its definition."""
    point = np.array([m, s, -1.0])
    return float(-0.5 * point @ products @ point)


def expected(
    products: Floats, concentration: Floats, shares: Floats, z: Floats
) -> dict[tuple[int, int], Floats]:
    """Return the log density of each chain and pair at all points, without its constant."""
    rows = {}
    for chain in range(CHAINS):
        for pair, (a, b) in enumerate(PAIRS.T):
            both, values = shares[chain, a] + shares[chain, b], []
            for point in z:
                part = (1.0 + np.tanh(point)) / 2.0
                total = concentration[chain] * (np.log(part) + np.log(1.0 - part))
                for c, p in ((a, both * part), (b, both * (1.0 - part))):
                    m, s = sqrt(R) * (p - 1.0 / R), UNIT * sqrt(R * p * (1.0 - p))
                    total += of_form(products[chain, c], m, s)
                values.append(total)
            rows[chain, pair] = np.array(values)
    return rows


@pytest.mark.parametrize("on_grid", [True, False])
def test_a_density_is_that_of_the_form_and_of_the_shares(on_grid: bool) -> None:
    random = np.random.default_rng(5)
    root = random.normal(size=(CHAINS, R, 3, 3)) * 4.0
    products = root @ root.transpose(0, 1, 3, 2)
    concentration, shares = np.array([0.6, 2.5]), random.dirichlet(np.ones(R), CHAINS)
    density = SplitDensities(QuadraticForm(products), UNIT, concentration).of(
        PAIRS, shares[:, PAIRS].sum(axis=1)
    )
    z = splits.GRID if on_grid else np.array([-2.0, 0.3, 1.4])
    given = z if on_grid else np.tile(z, (CHAINS * PAIRS.shape[1], 1))
    rows = density(given).reshape(CHAINS, PAIRS.shape[1], -1)
    for (chain, pair), wanted in expected(products, concentration, shares, z).items():
        found = rows[chain, pair]
        np.testing.assert_allclose(found - found[0], wanted - wanted[0], rtol=1e-9, atol=1e-9)


def test_a_share_of_everything_gives_no_invalid_root() -> None:
    form = QuadraticForm(np.ones((1, 3, 3, 3)))
    density = SplitDensities(form, 1.0, np.ones(1)).of(
        np.array([[0], [1]]), np.array([[1.0 + 1e-6]])
    )
    assert np.isfinite(density(np.array([[-8.0, 0.0, 8.0]]))).all()
