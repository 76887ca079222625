from __future__ import annotations

import numpy as np
import pytest

from calmstream.estimators.analysis.synthetic import Mixture
from calmstream.estimators.noise_aware.layout import Layout
from calmstream.estimators.noise_aware.sampler import Draws
from calmstream.estimators.noise_aware.statistics import Statistics, Targets
from calmstream.estimators.noise_aware.tables import INFLATION, Tables, errors, grouped
from calmstream.estimators.numerics.contraction import contract

CARDS = (3, 2, 4)


def _tables(residual: float) -> tuple[Tables, Draws]:
    random, layout = np.random.default_rng(4), Layout(CARDS)
    size = layout.size
    none = Statistics(
        np.zeros(size), np.zeros(size), np.zeros((size, size)), np.zeros((size, size)), {}
    )
    share = [random.dirichlet(np.ones(r), size=(20, 4)) for r in CARDS]
    weights = random.dirichlet(np.ones(4), size=20)
    square = np.full((layout.size, layout.size), residual**2)
    draws = Draws(weights, share, square)
    return Tables(Targets(layout, none), draws), draws


def test_tables_are_sums_over_states() -> None:
    tables, draws = _tables(0.0)
    wanted = np.einsum("dn,dna,dnb,dnc->dabc", draws.weights, *draws.share)
    np.testing.assert_allclose(tables.causes((0, 1, 2)), wanted, rtol=1e-5)
    np.testing.assert_allclose(tables.causes((0, 2)), wanted.sum(axis=2), rtol=1e-5)
    np.testing.assert_allclose(tables.causes((1,)), wanted.sum(axis=(1, 3)), rtol=1e-5)


def test_made_up_records_have_the_table_of_all_states_and_draws() -> None:
    _, draws = _tables(0.0)
    wanted = np.einsum("dn,dna,dnb,dnc->abc", draws.weights, *draws.share) / 20
    mixture, n = Mixture(*draws.mixture()), 200_000
    codes = mixture.sample(n, np.random.default_rng(3))
    cells = np.ravel_multi_index(tuple(codes.T), CARDS)
    counts = np.bincount(cells, minlength=24)
    # Pearson's statistic with 23 degrees of freedom is above 72 with a probability below 1e-6.
    assert (np.square(counts - n * wanted.ravel()) / (n * wanted.ravel())).sum() < 72
    apart = wanted.sum(axis=(1, 2))[:, None, None] * wanted.sum(axis=0)
    assert (np.square(counts - n * apart.ravel()) / (n * apart.ravel())).sum() > 72


def test_residuals_widen_pairs_and_no_margins() -> None:
    (plain, _), (wide, _) = _tables(0.0), _tables(0.5)
    alone = [errors(*tables.answer((0,))) for tables in (plain, wide)]
    np.testing.assert_array_equal(*alone)
    pairs = [errors(*tables.answer((0, 2))) for tables in (plain, wide)]
    assert pairs[1].mean() > 1.02 * pairs[0].mean()


def test_errors_of_groups_are_those_of_summed_deviations() -> None:
    table, away = _tables(0.02)[0].answer((0, 2))
    members = [np.array([[1.0, 0, 1], [0, 1, 0]]), np.eye(4)]
    sums, covariance = grouped(table, away, members)
    assert sums == pytest.approx(contract(table, members).ravel())
    moved = contract(away, members).reshape(len(away), -1)
    np.testing.assert_allclose(covariance, INFLATION**2 * moved.T @ moved / len(moved))


def test_an_interval_is_no_wider_than_all_that_is_possible() -> None:
    table, away = np.array([0.2, 0.8]), np.array([[5.0, -5.0], [-5.0, 5.0]])
    np.testing.assert_allclose(errors(table, away), np.array([0.8, 0.8]) / 1.96)
