"""Check the log-linear model of categories against enumeration and weighted draws of its prior."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from math import comb, prod

import numpy as np
import pytest
from numpy.typing import NDArray

from calmstream.estimators.noise_aware.input.features import Features
from calmstream.estimators.noise_aware.input.statistics import MOST_PRECISE, Statistics
from calmstream.estimators.noise_aware.model import NoiseAwareModel
from calmstream.estimators.noise_aware.models import category_joint
from calmstream.estimators.noise_aware.models.category_cells import CategoryCells
from calmstream.estimators.noise_aware.models.category_weights import CategoryWeights
from calmstream.estimators.noise_aware.models.posterior import Posterior
from calmstream.estimators.noise_aware.priors import FIELD_SCALE, SET_WEIGHT_SPREAD, SET_WEIGHTS
from calmstream.estimators.noise_aware.tables.mixed import (
    MixedTables,
    share_of_category_joint,
    share_of_first,
)
from calmstream.estimators.noise_aware.tables.moments import MomentTables
from calmstream.estimators.numerics.contraction import adding
from calmstream.estimators.numerics.grids import LogGrid
from tests.support.noise_aware import (
    crossed,
    domain_of,
    plan_for,
    tallies_of,
    truth,
    without_joint_of_categories,
)

Floats = NDArray[np.float64]
SHAPES = [(3, 2), (2, 3), (3, 2, 4), (5, 2, 2), (2, 2, 2, 2), (3, 4, 2, 3, 2), (2, 14, 3)]


def _terms(cells: CategoryCells) -> Floats:
    """Return all terms at all cells, by their definition: shape (cells, terms)."""
    labels = np.indices(cells.cardinalities).reshape(len(cells.cardinalities), -1)
    values = [code[label] for code, label in zip(cells.codes, labels, strict=True)]
    columns = []
    for own in cells.sets:
        product = np.ones((labels.shape[1], 1))
        for i in own:
            product = np.einsum("ca,cb->cab", product, values[i]).reshape(len(product), -1)
        columns.append(product)
    return np.concatenate(columns, axis=1)


def _statistics(
    features: Features, table: Floats, precision: float, noise: float, *, triples: bool = False
) -> Statistics:
    """Return first, second and third moments of a joint table, with noise in free directions."""
    labels = np.indices(table.shape).reshape(table.ndim, -1)
    rows = np.hstack([code[label] for code, label in zip(features.codes, labels, strict=True)])
    means, products = table.ravel() @ rows, (rows * table.ravel()[:, None]).T @ rows
    free = np.zeros_like(products)
    for own, r in zip(features.slices, features.cardinalities, strict=True):
        free[own, own] = np.eye(r) - 1.0 / r if r > 2 else 1.0
    random = np.random.default_rng(5)
    drawn = np.triu(random.normal(size=products.shape), 1)
    cross, blocks = crossed(features), {}
    for own in combinations(range(table.ndim), 3) if triples else ():
        block = features.interactions(own, table.sum(axis=_rest(table, own)))[1:, 1:, 1:]
        error = random.normal(size=block.shape)
        for axis, i in enumerate(own):
            side = free[features.slices[i], features.slices[i]]
            error = np.moveaxis(np.tensordot(error, side, (axis, 0)), -1, axis)
        blocks[own] = (block + noise * error, precision)
    return Statistics(
        means + noise * free @ random.normal(size=len(means)),
        np.full(len(means), precision),
        np.where(cross, products + noise * free @ (drawn + drawn.T) @ free, 0.0),
        np.where(cross, precision, 0.0),
        {},
        blocks,
    )


def _rest(table: Floats, kept: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(i for i in range(table.ndim) if i not in kept)


def _dependent(shape: tuple[int, ...], seed: int) -> Floats:
    """Return a joint table whose attributes depend on each other."""
    table = np.random.default_rng(seed).dirichlet(np.full(prod(shape), 2.0))
    return table.reshape(shape)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("size", [0.1, 1.0, 8.0])  # with 8, energies reach some hundreds
def test_tables_moments_and_slopes_are_those_of_all_terms(
    shape: tuple[int, ...], order: int, size: float
) -> None:
    cells = CategoryCells(shape, order)
    terms = _terms(cells)
    weights = size * np.random.default_rng(1).normal(size=(3, cells.terms))
    energy = weights @ terms.T
    exact = np.exp(energy - energy.max(axis=1, keepdims=True))
    exact /= exact.sum(axis=1, keepdims=True)
    tables = cells.tables(weights)
    largest = np.abs(energy).max()
    np.testing.assert_allclose(cells.energy(weights).reshape(3, -1), energy, atol=1e-6 * largest)
    np.testing.assert_allclose(tables.reshape(3, -1), exact, rtol=1e-5 * largest, atol=1e-6)
    shifted = cells.energy(weights, constant=np.array([1.0, 2.0, 3.0]))
    np.testing.assert_allclose(shifted.reshape(3, -1).T - [1, 2, 3], energy.T, atol=1e-6 * largest)
    own = tables.reshape(3, -1).astype(np.float64)
    np.testing.assert_allclose(cells.moments(tables), own @ terms, atol=3e-6)
    theta, slopes = cells.slopes(tables)
    covariance = [(terms.T * p) @ terms - np.outer(p @ terms, p @ terms) for p in own]
    np.testing.assert_allclose(theta, own @ terms, atol=3e-6)
    np.testing.assert_allclose(slopes, covariance, atol=3e-5)


@pytest.mark.parametrize("shape", SHAPES)
def test_terms_are_orthonormal_under_even_cells(shape: tuple[int, ...]) -> None:
    terms = _terms(CategoryCells(shape, 3))
    np.testing.assert_allclose(terms.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(terms.T @ terms / len(terms), np.eye(terms.shape[1]), atol=1e-12)


def test_weights_that_are_too_large_give_a_table_of_zeros() -> None:
    cells = CategoryCells((3, 2, 4))
    weights = np.zeros((2, cells.terms))
    weights[1] = 1e39
    tables = cells.tables(weights)
    np.testing.assert_allclose(tables[0], 1.0 / 24.0, rtol=1e-6)
    assert not tables[1].any()


@pytest.mark.parametrize("kept", [(), (0,), (2,), (0, 2), (0, 1, 2)])
def test_adding_sums_cells(kept: tuple[int, ...]) -> None:
    table = np.random.default_rng(2).random((3, 2, 4))
    rest = tuple(i for i in range(3) if i not in kept)
    expected = table.sum(axis=rest).ravel()
    np.testing.assert_allclose(adding((3, 2, 4), kept) @ table.ravel(), expected)


def _model(shape: tuple[int, ...], precision: float, order: int = 2) -> CategoryWeights:
    cells, random = CategoryCells(shape, order), np.random.default_rng(3)
    margins = [random.dirichlet(np.full(r, 5.0)) for r in shape]
    estimates = 0.2 * random.normal(size=cells.terms)
    known = np.full(cells.terms, precision)
    known[-1] = 0.0
    return CategoryWeights(cells, estimates, known, margins, 2, random)


@pytest.mark.parametrize("order", [2, 3])
def test_the_density_and_its_gradient(order: int) -> None:
    shape = (3, 2, 4)
    model, random = _model(shape, 300.0, order), np.random.default_rng(4)
    terms, state = _terms(CategoryCells(shape, order)), 0.3 * random.normal(size=model.state.shape)
    known = np.full(terms.shape[1], 300.0)
    known[-1] = 0.0

    def density(state: Floats) -> Floats:
        table = np.exp(model.weights(state) @ terms.T)
        table /= table.sum(axis=1, keepdims=True)
        gap = model._estimates - table @ terms
        return -0.5 * ((np.square(gap) @ known) + (model.prior_curvature() * state**2).sum(axis=1))

    value, gradient, tables = model.density(state)
    np.testing.assert_allclose(value, density(state), rtol=1e-5)
    again = model.density(state, tables)
    np.testing.assert_array_equal(again[1], gradient)
    for place in range(state.shape[1]):
        step = np.zeros_like(state)
        step[:, place] = 1e-5
        slope = (density(state + step) - density(state - step)) / 2e-5
        np.testing.assert_allclose(gradient[:, place], slope, rtol=1e-3, atol=2e-3)
    assert model.density(np.full_like(state, 1e38))[0].max() == -np.inf


def test_larger_sets_have_centred_contrasts() -> None:
    """So they hardly move the moments of smaller ones."""
    shape = (3, 2, 4)
    model, cells = _model(shape, 300.0, 3), CategoryCells(shape, 3)
    random = np.random.default_rng(3)
    margins = [random.dirichlet(np.full(r, 5.0)) for r in shape]
    labels = np.indices(shape).reshape(3, -1)
    state = 0.2 * random.normal(size=(1, cells.terms))
    energy = np.zeros(labels.shape[1])
    for own, places in cells.sets.items():
        product = np.ones((labels.shape[1], 1))
        for i in own:
            value = cells.codes[i][labels[i]]
            if len(own) > 1:
                value = value - cells.codes[i].T @ margins[i]
            product = np.einsum("ca,cb->cab", product, value).reshape(len(product), -1)
        energy += product @ state[0, places]
    found = _terms(cells) @ model.weights(state)[0]
    np.testing.assert_allclose(found - found.mean(), energy - energy.mean(), atol=1e-12)


def _of_prior(cells: CategoryCells, count: int, random: np.random.Generator) -> Floats:
    """Return states drawn from the prior as its documentation states it: (count, terms)."""

    def scale(prior: LogGrid) -> Floats:
        chance = np.exp(prior.on_grid - prior.on_grid.max())
        return random.choice(prior.points, size=count, p=chance / chance.sum())

    out, sigma = np.zeros((count, cells.terms)), scale(FIELD_SCALE)
    taus = [scale(prior) for prior in SET_WEIGHTS]
    for own, places in cells.sets.items():
        free = places.stop - places.start
        normal = random.normal(size=(count, free))
        if len(own) == 1:
            out[:, places] = sigma[:, None] / np.sqrt(free) * normal
            continue
        grid = np.log(SET_WEIGHTS[len(own) - 2].points)
        away = (grid - np.log(taus[len(own) - 2])[:, None]) / SET_WEIGHT_SPREAD
        chance = np.cumsum(np.exp(-0.5 * np.square(away)), axis=1)
        place = (random.random(count) * chance[:, -1] > chance.T).sum(axis=0)
        size = np.exp(grid[np.minimum(place, grid.size - 1)])
        out[:, places] = free**-0.25 * size[:, None] * normal
    return out


@pytest.mark.slow
@pytest.mark.parametrize(("precision", "triples"), [(10.0, False), (40.0, False), (40.0, True)])
def test_draws_are_those_of_the_posterior(
    precision: float, triples: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compare means and deviations of moments with draws of the prior, weighted by likelihood."""
    monkeypatch.setattr(category_joint, "SWEEPS", (25, 4000))
    monkeypatch.setattr(category_joint, "SWEEPS_OF_TRIPLES", (25, 4000))
    features = Features((3, 2, 2))
    statistics = _statistics(
        features, _dependent((3, 2, 2), 1), precision, precision**-0.5, triples=triples
    )
    fitted = category_joint.fit(features, statistics)
    assert fitted.misses_orders != triples
    cells, random = fitted.cells, np.random.default_rng(6)
    estimates, known = category_joint._of_terms(features, statistics, cells)
    terms = _terms(cells)
    valid = statistics.valid_means(features)
    margins = [features.margin(i, valid) for i in range(3)]
    chart = CategoryWeights(cells, estimates, known, margins, 1, random)._chart
    total, squares, first, second = 0.0, 0.0, np.zeros(cells.terms), np.zeros(cells.terms)
    for _ in range(20):
        energy = _of_prior(cells, 100_000, random) @ chart.T @ terms.T
        table = np.exp(energy - energy.max(axis=1, keepdims=True))
        theta = (table / table.sum(axis=1, keepdims=True)) @ terms
        weight = np.exp(-0.5 * np.square(estimates - theta) @ known)
        total, squares = total + float(weight.sum()), squares + float(weight @ weight)
        first += weight @ theta
        second += weight @ np.square(theta)
    assert total**2 / squares > 3000.0  # the effective number of draws
    mean = first / total
    deviation = np.sqrt(second / total - np.square(mean))
    np.testing.assert_allclose(fitted.moments.mean(axis=0), mean, atol=0.08 * deviation.max())
    np.testing.assert_allclose(fitted.moments.std(axis=0), deviation, rtol=0.1)


def test_moments_of_features_are_those_of_the_tables() -> None:
    shape = (3, 2, 4)
    features = Features(shape)
    fitted = category_joint.fit(features, _statistics(features, _dependent(shape, 2), 1e4, 0.0))
    (means, _), (products, spread) = fitted.first_two()
    labels = np.indices(shape).reshape(3, -1)
    rows = np.hstack([code[label] for code, label in zip(features.codes, labels, strict=True)])
    table = fitted.table.ravel()
    np.testing.assert_allclose(means, table @ rows, atol=1e-5)
    expected = np.where(crossed(features), (rows * table[:, None]).T @ rows, 0.0)
    np.testing.assert_allclose(products, expected, atol=1e-5)
    # All draws of this small domain are kept as tables.
    drawn = fitted.drawn.reshape(len(fitted.drawn), -1).astype(np.float64)
    variance = np.einsum("dc,cf,cg->dfg", drawn, rows, rows).var(axis=0)
    np.testing.assert_allclose(spread, np.where(crossed(features), variance, 0.0), atol=1e-7)
    for attributes in [(0,), (1, 2), (0, 2), (0, 1, 2)]:
        rest = tuple(i for i in range(3) if i not in attributes)
        answer, draws = fitted.drawn_of(attributes)
        np.testing.assert_allclose(answer, fitted.table.reshape(shape).sum(axis=rest), atol=1e-6)
        each = fitted.drawn.reshape(-1, *shape).sum(axis=tuple(i + 1 for i in rest))
        np.testing.assert_allclose(draws, each, atol=1e-6)
        np.testing.assert_allclose(fitted.marginal(attributes)[1], draws.var(axis=0))


def test_exact_statistics_give_the_pair_tables() -> None:
    shape = (4, 3, 2)
    features, table = Features(shape), _dependent(shape, 3)
    fitted = category_joint.fit(features, _statistics(features, table, 1e7, 0.0))
    for attributes in [(0, 1), (0, 2), (1, 2)]:
        rest = tuple(i for i in range(3) if i not in attributes)
        answer, variance = fitted.marginal(attributes)
        np.testing.assert_allclose(answer, table.sum(axis=rest), atol=2e-3)
        assert np.sqrt(variance).max() < 2e-3


def test_exact_statistics_of_triples_give_their_tables() -> None:
    shape = (3, 3, 2, 2)
    features, table = Features(shape), _dependent(shape, 3)
    for triples in (False, True):
        statistics = _statistics(features, table, 1e7, 0.0, triples=triples)
        fitted = category_joint.fit(features, statistics)
        apart = []
        for own in combinations(range(4), 3):
            answer, variance = fitted.marginal(own)
            apart.append(np.abs(answer - table.sum(axis=_rest(table, own))).max())
            assert not triples or np.sqrt(variance).max() < 2e-3
            mean, spread = fitted.third(own)
            if triples:
                np.testing.assert_allclose(mean, statistics.blocks[own][0], atol=0.02)
            assert (spread > 0.0).any() == triples
        assert (max(apart) < 2e-3) == triples


def test_many_weights_of_triples_are_left_out() -> None:
    shape = (6, 6, 6, 6)
    features = Features(shape)
    assert category_joint.serves(shape)
    assert not category_joint.serves(shape, 3)
    statistics = _statistics(features, _dependent(shape, 3), 100.0, 0.1, triples=True)
    assert category_joint.fit(features, statistics).misses_orders


@pytest.mark.parametrize("precision", [0.0, 1.0, MOST_PRECISE, 1e15])
def test_statistics_that_contradict_each_other_give_finite_tables(precision: float) -> None:
    shape = (3, 2, 4, 2)
    features = Features(shape)
    statistics = _statistics(features, _dependent(shape, 4), precision, 2, triples=precision > 1.0)
    fitted = category_joint.fit(features, statistics)
    for attributes in [(0,), (1, 2), (0, 1, 2, 3)]:
        table, variance = fitted.marginal(attributes)
        assert np.isfinite(table).all()
        assert np.isfinite(variance).all()
        assert table.sum() == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize(
    ("cards", "served"),
    [
        ((3,), False),
        ((3, 3), True),
        ((2,) * 14, True),
        ((2,) * 15, False),
        ((8, 8, 14, 7), False),  # 426 weights
        ((9, 8, 8, 8), True),
    ],
)
def test_small_domains_are_served(cards: tuple[int, ...], served: bool) -> None:
    assert category_joint.serves(cards) == served
    if served:
        cells = CategoryCells(cards)
        assert cells.terms <= category_joint.MAX_TERMS
        assert prod(cards) <= category_joint.MAX_CELLS


def _posterior(features: Features, table: Floats, variance: float) -> Posterior:
    """Return a posterior of moments that is sure of a joint table's."""
    exact = _statistics(features, table, 1.0, 0.0)
    size = features.size
    return Posterior(
        exact.means,
        np.full(size, variance),
        exact.products,
        np.full((size, size), variance),
        exact.means[None],
        exact.products[None],
        0.0,
    )


def _share(
    fitted: category_joint.CategoryJoint, statistics: Statistics, posterior: Posterior, k: int
) -> tuple[float, float]:
    moments = MomentTables(fitted.features, posterior, None, 1.25, statistics.blocks)
    return share_of_category_joint(fitted, statistics, posterior, moments, k, 0.5)


@pytest.mark.parametrize(("right", "least", "most"), [(True, 0.9, 1.0), (False, 0.0, 0.1)])
def test_the_share_is_that_of_the_better_model(right: bool, least: float, most: float) -> None:
    shape = (3, 2, 4)
    features, true, other = Features(shape), _dependent(shape, 5), _dependent(shape, 6)
    statistics = _statistics(features, true, 1e5, 1e5**-0.5)
    fitted = category_joint.fit(
        features, statistics if right else _statistics(features, other, 1e5, 0.0)
    )
    posterior = _posterior(features, other if right else true, 1e-7)
    share, decided = _share(fitted, statistics, posterior, 2)
    assert least <= share <= most
    assert decided > 0.9


def test_the_share_is_the_prior_without_statistics() -> None:
    features = Features((3, 2, 4))
    table = _dependent((3, 2, 4), 7)
    nothing = _statistics(features, table, 0.0, 0.0)
    fitted = category_joint.fit(features, nothing)
    assert _share(fitted, nothing, _posterior(features, table, 1e-7), 2) == (0.5, 0.0)


def test_estimates_of_triples_speak_for_the_model_that_has_them() -> None:
    """Sums modulo 3 have even pair tables, which both models know."""
    shape = (3, 3, 3)
    features, labels = Features(shape), np.indices((3, 3, 3))
    table = np.where(labels.sum(axis=0) % 3 == 0, 0.9 / 9.0, 0.1 / 18.0)
    statistics = _statistics(features, table, 1e5, 0.0)
    fitted = category_joint.fit(features, statistics)
    posterior = _posterior(features, table, 1e-7)
    block = features.interactions((0, 1, 2), table)[1:, 1:, 1:]
    with_triple = replace(statistics, blocks={(0, 1, 2): (block, 1e5)})
    assert _share(fitted, with_triple, posterior, 3)[0] < 0.05
    without = _share(fitted, statistics, posterior, 2)
    assert _share(fitted, with_triple, posterior, 2) == pytest.approx(without, rel=1e-9)


@pytest.mark.parametrize("k", [2, 3])
def test_for_bits_the_share_is_that_of_their_coefficients(k: int) -> None:
    shape = (2, 2, 2)
    features, table = Features(shape), _dependent(shape, 8)
    statistics = _statistics(features, table, 300.0, 300.0**-0.5)
    fitted = category_joint.fit(features, statistics)
    posterior = _posterior(features, _dependent(shape, 9), 1e-3)
    draws = fitted.moments
    above = np.triu_indices(3, 1)
    estimates = np.append(statistics.means, statistics.products[above])
    first = draws.mean(axis=0), np.minimum(draws.var(axis=0) * 300.0, 1.0)
    second = np.append(posterior.means, posterior.products[above]), np.full(6, 0.3)
    cost = np.repeat([comb(k, 1) / comb(3, 1) / 2.0, comb(k, 2) / comb(3, 2) / 4.0], 3)
    expected = share_of_first(first, second, estimates, np.full(6, 300.0), cost, 0.5)
    np.testing.assert_allclose(_share(fitted, statistics, posterior, k), expected, rtol=1e-6)


def _records(n: int, cards: tuple[int, ...], seed: int) -> NDArray[np.uint16]:
    """Draw records of a chain: most attributes follow the one before them."""
    random = np.random.default_rng(seed)
    out = random.integers(0, cards, size=(n, len(cards)))
    for i in range(1, len(cards)):
        out[:, i] = np.where(random.random(n) < 0.6, out[:, i - 1] % cards[i], out[:, i])
    return out.astype(np.uint16)


@pytest.mark.slow
def test_it_lowers_the_error_and_intervals_hold() -> None:
    cards, users = (3, 3, 4, 3, 5), 100_000
    domain, codes = domain_of(*cards), _records(users, cards, 8)
    plan = plan_for(domain, "1", users, 2)
    pairs = list(combinations(range(len(cards)), 2))
    errors, inside = np.zeros((4, 2)), []
    for seed in range(4):
        tallies = tallies_of(plan, codes, seed)
        fitted = NoiseAwareModel(plan, tallies)
        with without_joint_of_categories():
            other = NoiseAwareModel(plan, tallies)
        for pair in pairs:
            exact = truth(domain, codes, pair)
            answers = [model.marginal(pair) for model in (fitted, other)]
            errors[seed] += [np.square(answer.table - exact).sum() for answer in answers]
            inside.append(np.abs(answers[0].table - exact) <= 1.96 * answers[0].stderr)
    assert errors[:, 0].sum() < 0.95 * errors[:, 1].sum()
    assert 0.88 <= float(np.mean(np.concatenate(inside, axis=None))) <= 0.995


def test_grouped_answers_are_sums_of_tables() -> None:
    cards, users = (3, 2, 4), 50_000
    domain, codes = domain_of(*cards), _records(users, cards, 9)
    plan = plan_for(domain, "2", users, 2)
    model = NoiseAwareModel(plan, tallies_of(plan, codes, 1))
    assert isinstance(model.fitted, MixedTables)
    members = [np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]), np.eye(2), np.eye(4)]
    sums, spread = model.grouped((0, 1, 2), members)
    table = model.marginal((0, 1, 2)).table.reshape(cards)
    expected = np.stack([table[:2].sum(axis=0), table[2]]).ravel()
    np.testing.assert_allclose(sums, expected, atol=1e-6)
    assert (np.diag(spread) > 0).all()
    assert np.linalg.eigvalsh(spread).min() > -1e-9
