"""Check the log-linear model: tables, density and draws, against independent computations."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest
from numpy.typing import NDArray

from calmstream.estimators.noise_aware.input.statistics import Statistics
from calmstream.estimators.noise_aware.models import joint
from calmstream.estimators.noise_aware.models.loglinear import LogLinear
from calmstream.estimators.noise_aware.models.pair_tables import PairTables
from calmstream.estimators.noise_aware.models.parities import Parities
from calmstream.estimators.noise_aware.priors import (
    EXCESS,
    FIELD_CENTRE,
    FIELD_SCALE,
    INTERACTION_SCALES,
    SOCIABILITY,
    TAIL_FREEDOMS,
)
from calmstream.estimators.numerics.hamiltonian import draw, inverse_of_triangle

Floats = NDArray[np.float64]


def signs(d: int, order: int) -> Floats:
    """Return every parity in every cell, by its definition: (cells, sets)."""
    cells = np.array(list(product([1, -1], repeat=d)))
    members = [s for o in range(1, order + 1) for s in combinations(range(d), o)]
    return np.stack([cells[:, list(s)].prod(axis=1) for s in members], axis=1).astype(np.float64)


def statistics_of(table: Floats, d: int, precision: float) -> Statistics:
    """Return the exact first and second moments of a joint distribution."""
    theta = signs(d, 2).T @ table.ravel()
    products = np.zeros((d, d))
    for (i, j), value in zip(combinations(range(d), 2), theta[d:], strict=True):
        products[i, j] = products[j, i] = value
    precisions = np.where(np.eye(d) > 0, 0.0, precision)
    ones = np.full(d, precision)
    return Statistics(theta[:d], ones, products, precisions, {})


@pytest.mark.parametrize(
    ("d", "order"),
    [(1, 1), (2, 1), (2, 2), (3, 2), (7, 2), (3, 3), (5, 3), (8, 3), (5, 4), (6, 4), (7, 5)],
)
def test_tables_and_moments_are_those_of_all_parities(d: int, order: int) -> None:
    parities = Parities(d, order)
    chi = signs(d, order)
    random = np.random.default_rng(d)
    weights = 0.4 * random.normal(size=(3, chi.shape[1]))
    energy = weights @ chi.T
    tables = np.exp(energy) / np.exp(energy).sum(axis=1, keepdims=True)
    computed = parities.tables(weights)
    np.testing.assert_allclose(parities.energy(weights).reshape(3, -1), energy, atol=2e-5)
    np.testing.assert_allclose(computed.reshape(3, -1), tables, atol=1e-6)
    np.testing.assert_allclose(parities.moments(computed), tables @ chi, atol=2e-6)
    own, slopes = parities.slopes(computed)
    covariance = np.array([(chi.T * p) @ chi - np.outer(p @ chi, p @ chi) for p in tables])
    np.testing.assert_allclose(own, tables @ chi, atol=2e-6)
    np.testing.assert_allclose(slopes, covariance, atol=4e-6)
    np.testing.assert_array_equal(parities.slopes(computed, d)[1], slopes[:, :, :d])


@pytest.mark.parametrize("d", [2, 3, 5, 9, 10, 13])
@pytest.mark.parametrize("size", [0.1, 1.0, 3.0])  # with 3 and d = 13, energies reach 90
def test_factors_of_pairs_give_the_tables_of_their_energies(d: int, size: float) -> None:
    parities, chi = PairTables(d), signs(d, 2)
    weights = size * np.random.default_rng(d).normal(size=(3, chi.shape[1]))
    energy = weights @ chi.T
    tables = np.exp(energy - energy.max(axis=1, keepdims=True))
    tables /= tables.sum(axis=1, keepdims=True)
    compact = parities.compact(weights)
    made = parities.expand(compact).reshape(3, -1)
    np.testing.assert_allclose(made, tables, rtol=3e-4, atol=1e-12)
    memory = np.empty((3, 1 << d // 2, 1 << d - d // 2), np.float32)
    assert parities.expand(compact, memory) is memory
    np.testing.assert_array_equal(memory.reshape(3, -1), made)
    np.testing.assert_array_equal(parities.expand(compact[1:], memory).reshape(2, -1), made[1:])
    np.testing.assert_allclose(parities.compact(weights[1:]), compact[1:], rtol=1e-4)


def test_weights_that_contradict_each_other_beyond_single_precision_have_no_table() -> None:
    parities = PairTables(10)
    weights = np.zeros((4, 55))
    weights[3, 0] = np.nan
    for pair, sign in (((0, 2), 1.0), ((2, 5), 1.0), ((0, 5), -1.0)):  # one of a, of b and of c
        weights[:2, parities.sets.members.index(pair)] = [20.0 * sign, 100.0 * sign]
    tables = parities.expand(parities.compact(weights)).reshape(4, -1)
    energy = weights[0] @ signs(10, 2).T
    exact = np.exp(energy - energy.max())
    np.testing.assert_allclose(tables[0], exact / exact.sum(), rtol=1e-5)
    np.testing.assert_array_equal(tables[2], np.float32(2.0**-10))
    assert not tables[1].any()
    assert not tables[3].any()


@pytest.mark.filterwarnings("error")
def test_a_state_without_a_table_is_impossible() -> None:
    random, parities = np.random.default_rng(1), PairTables(10)
    model = LogLinear(parities, np.zeros(55), np.full(55, 50.0), 2, random, parities)
    state = model.state.copy()
    state[1, 10:55] = 500.0 * random.normal(size=45)
    value, gradient, known = model.density(state)
    assert np.isfinite(value[0])
    assert value[1] == -np.inf
    assert np.isfinite(gradient).all()
    assert model.density(state, known)[0][1] == -np.inf


@pytest.mark.filterwarnings("error")
def test_no_scale_is_moved_to_a_state_without_a_table() -> None:
    random, parities = np.random.default_rng(1), PairTables(10)
    model = LogLinear(parities, np.zeros(55), np.full(55, 50.0), 40, random, parities)
    own, prior = np.arange(10, 55), INTERACTION_SCALES[0]
    start = 3.0 * random.normal(size=model.size)
    start[own] *= 10.0
    twice = start.copy()
    twice[own] *= 2.0
    assert parities.compact(model.weights(start[None])).any()
    assert not parities.compact(model.weights(twice[None])).any()
    model.state, scale = np.tile(start, (40, 1)), np.full(40, 0.05)
    known = model.density(model.state)[2]
    known = model._move(own, scale, prior, known, np.full(40, -1e99))  # takes all that is possible
    assert (scale != 0.05).sum() > 10
    assert scale.max() < 0.1
    np.testing.assert_array_equal(known, parities.compact(model.weights(model.state)))
    assert known.any(axis=1).all()


def test_factors_give_the_density_of_tables() -> None:
    found = []
    for parities in (Parities(7, 2), PairTables(7)):
        random, observed = np.random.default_rng(1), Parities(7, 3)
        estimates = 0.2 * random.normal(size=63)
        model = LogLinear(parities, estimates, np.full(63, 300.0), 3, random, observed)
        state = model.state + 0.1 * random.normal(size=model.state.shape)
        value, gradient, known = model.density(state)
        again = model.density(state, known)
        np.testing.assert_array_equal(again[0], value)
        np.testing.assert_array_equal(again[1], gradient)
        model.state = state
        for _ in range(10):
            known = model.draw_scales(known)
            np.testing.assert_array_equal(known, parities.compact(model.weights(model.state)))
        found.append((value, gradient, model.state))
    for by_tables, by_factors in zip(*found, strict=True):
        np.testing.assert_allclose(by_factors, by_tables, rtol=1e-4, atol=1e-3)


def model_of(
    d: int, order: int, noise: float, chains: int = 2, read: int | None = None
) -> tuple[LogLinear, Floats, Floats]:
    """Return a model of the estimates of some table, at states about its mode."""
    random = np.random.default_rng(d)
    read = read or order
    parities, chi = Parities(d, order), signs(d, read)
    observed = Parities(d, read) if read > order else parities
    energy = chi @ (0.3 * random.normal(size=chi.shape[1]))
    table = np.exp(energy) / np.exp(energy).sum()
    estimates = table @ chi + noise * random.normal(size=chi.shape[1])
    precision = np.full(estimates.size, noise**-2)
    return LogLinear(parities, estimates, precision, chains, random, observed), estimates, precision


def exact_moments(model: LogLinear, state: Floats, order: int) -> Floats:
    """Return the moments of all sets up to an order at one state: shape (sets,)."""
    d = model.parities.sets.attributes
    weights = model.weights(state[None])[0]
    energy = signs(d, order)[:, : weights.size] @ weights
    return np.asarray(signs(d, order).T @ (np.exp(energy) / np.exp(energy).sum()))


@pytest.mark.parametrize(("order", "read"), [(3, 3), (2, 3), (2, 4)])
def test_the_gradient_is_that_of_the_density(order: int, read: int) -> None:
    model, _, _ = model_of(4, order, 0.1, read=read)
    if read > order:
        model._set_delta(np.array([8, 30]))  # 0.007 and 0.2
    state = model.state + 0.1 * np.random.default_rng(0).normal(size=model.state.shape)
    _, gradient, _ = model.density(state)
    step = 5e-3  # single precision forbids much less; the third derivative's part is about 1e-2
    for place in range(model.size):
        moved = np.zeros(model.size)
        moved[place] = step
        upper, lower = model.density(state + moved)[0], model.density(state - moved)[0]
        slope = (upper - lower) / (2 * step)
        np.testing.assert_allclose(gradient[:, place], slope, rtol=2e-2, atol=2e-2)


def test_the_density_is_the_posterior_of_the_stated_model() -> None:
    model, estimates, precision = model_of(3, 3, 0.2, chains=1)
    model._freedom = np.array([TAIL_FREEDOMS[[0, 3, 1]]])
    chi, random = signs(3, 3), np.random.default_rng(1)

    def by_hand(state: Floats) -> float:
        pair, triple, a, m, mu = state[3:6], state[6:7], state[7:10], state[10], state[11]
        single = state[:3] + mu
        full = [pair[n] + a[i] + a[j] + m for n, (i, j) in enumerate(combinations(range(3), 2))]
        centre = np.clip(estimates[:3] * precision[:3] / (precision[:3] + 3.0), -0.97, 0.97)
        for value, (i, j) in zip(full, combinations(range(3), 2), strict=True):
            single[i] -= value * centre[j]
            single[j] -= value * centre[i]
        energy = chi @ np.concatenate([single, full, triple])
        theta = chi.T @ (np.exp(energy) / np.exp(energy).sum())
        sigma, tau, alpha = model._sigma[0], model._tau[0], model._alpha[0]
        student = [state[:3] / sigma, pair / tau[0], triple / tau[1]]
        value = -0.5 * float((precision * (theta - estimates) ** 2).sum())
        for z, nu in zip(student, model._freedom[0], strict=True):
            value -= 0.5 * (nu + 1.0) * float(np.log1p(z * z / nu).sum())
        gauss = (a * a).sum() / alpha**2 + (m / (2 * alpha)) ** 2 + (mu / FIELD_CENTRE) ** 2
        return value - 0.5 * float(gauss)

    first, second = (model.state[0] + 0.2 * random.normal(size=model.size) for _ in range(2))
    difference = model.density(first[None])[0][0] - model.density(second[None])[0][0]
    assert difference == pytest.approx(by_hand(first) - by_hand(second), abs=1e-3)


def test_tables_are_those_of_the_state_after_scales_were_drawn() -> None:
    model, _, _ = model_of(4, 3, 0.5, chains=8)
    before, moved = model.state.copy(), np.zeros(8, bool)
    for _ in range(20):
        known = model.draw_scales(model.density(model.state)[2])
        _, gradient, tables = model.density(model.state)
        np.testing.assert_array_equal(known, tables)
        np.testing.assert_array_equal(model.density(model.state, known)[1], gradient)
        moved |= (model.state != before).any(axis=1)
        before = model.state.copy()
    assert moved.all()


def test_the_density_takes_observed_triples_for_as_sure_as_noise_and_delta_are() -> None:
    model, estimates, _ = model_of(5, 2, 0.05, read=3)
    own, random = model.parities, np.random.default_rng(0)
    pairs = LogLinear(own, estimates[:15], np.full(15, 400.0), 2, random, own)
    for size in ("_sigma", "_tau", "_alpha", "_freedom"):
        setattr(pairs, size, getattr(model, size))
    model._set_delta(np.array([8, 30]))
    state = model.state + 0.2 * np.random.default_rng(1).normal(size=model.state.shape)
    left = [np.square(estimates - exact_moments(model, row, 3))[15:].sum() for row in state]
    wanted = -0.5 * np.array(left) / (0.05**2 + np.square(model.delta))
    difference = model.density(state)[0] - pairs.density(state)[0]
    assert model.delta[1] > 10 * model.delta[0]
    np.testing.assert_allclose(difference, wanted, rtol=1e-3, atol=1e-3)
    likelihood = model._likelihood(model._gap(model.parities.tables(model.weights(state))))
    alone = model.density(state)[0] - model._prior(state)[0]
    np.testing.assert_allclose(likelihood, alone, rtol=1e-6)


def test_the_curvature_is_that_of_the_observed_moments() -> None:
    model, _, precision = model_of(4, 2, 0.1, read=3)
    model._set_delta(np.array([8, 30]))
    model.state = model.state + 0.2 * np.random.default_rng(1).normal(size=model.state.shape)
    likelihood = np.zeros((model.size, model.size))
    for chain, state in enumerate(model.state):
        moved = 1e-5 * np.eye(model.size)
        upper, lower = (
            np.array([exact_moments(model, state + way * row, 3) for row in moved])
            for way in (1.0, -1.0)
        )
        slope, precisions = (upper - lower) / 2e-5, precision.copy()
        precisions[10:] = 1.0 / (1.0 / precision[10:] + model.delta[chain] ** 2)
        likelihood += (slope * precisions) @ slope.T / 2
    np.testing.assert_allclose(model.curvature(), likelihood, atol=2e-3)


@pytest.mark.slow
def test_the_curvature_of_the_prior_is_the_mean_of_its_squared_slopes() -> None:
    model, _, _ = model_of(4, 3, 0.1, chains=3)
    model._sigma, model._alpha = np.array([0.2, 0.5, 1.0]), np.array([0.1, 0.02, 0.3])
    model._tau = np.array([[0.1, 0.05], [0.03, 0.2], [0.3, 0.01]])
    model._freedom = TAIL_FREEDOMS[np.array([[0, 1, 2], [3, 3, 0], [1, 2, 3]])]
    random, many = np.random.default_rng(7), 20_000
    squares = np.zeros((3, model.size))
    for _ in range(many):
        state = random.normal(size=(3, model.size))
        heavy = random.standard_t(model._freedom[:, model.parities.sets.order - 1])
        sizes = [model._sigma, model._tau[:, 0], model._tau[:, 1], model._alpha]
        sizes += [2.0 * model._alpha, np.full(3, FIELD_CENTRE)]
        scale = np.repeat(np.array(sizes), [4, 6, 4, 4, 1, 1], axis=0).T
        state[:, :14] = heavy
        squares += np.square(model._prior(scale * state)[1]) / many
    np.testing.assert_allclose(model.prior_curvature(), squares, rtol=0.06)


@pytest.mark.parametrize("size", [1, 24, 25, 97])
def test_the_inverse_by_halves_is_the_inverse(size: int) -> None:
    roots = np.tril(np.random.default_rng(size).normal(size=(2, size, size)), -1) / size
    roots += 2.0 * np.eye(size)
    inverse = inverse_of_triangle(roots)
    np.testing.assert_allclose(inverse @ roots, np.tile(np.eye(size), (2, 1, 1)), atol=1e-12)


def test_delta_is_drawn_from_its_posterior_on_the_grid() -> None:
    chains, random = 100_000, np.random.default_rng(11)
    precision = np.full(14, 0.02**-2)
    precision[10:] = [0.02**-2, 0.05**-2, 0.0, 0.01**-2]
    model = LogLinear(Parities(4, 2), np.zeros(14), precision, chains, random, Parities(4, 3))
    gap = np.full(14, 9.0)  # of what is modelled, which says nothing about delta
    gap[10:] = [0.03, -0.04, 7.0, 0.025]
    model._draw_delta(np.tile(gap, (chains, 1)))

    grid = np.exp(np.linspace(np.log(0.002), np.log(0.8), 40))
    chance = np.exp(-0.5 * np.square(grid / EXCESS.size))
    for left, noise in ((0.03, 0.02), (-0.04, 0.05), (0.025, 0.01)):
        variance = noise**2 + np.square(grid)
        chance *= np.exp(-0.5 * left * left / variance) / np.sqrt(variance)
    chance /= chance.sum()
    frequencies = np.array([np.isclose(model.delta, value).mean() for value in grid])
    assert frequencies.sum() == pytest.approx(1.0)
    assert (np.abs(frequencies - chance) <= 5 * np.sqrt(chance / chains) + 1e-4).all()
    taken = 1.0 / (0.05**2 + np.square(model.delta))
    np.testing.assert_allclose(model._precision[:, 11], taken, rtol=1e-9)
    assert (model._precision[:, 12] == 0.0).all()
    assert (model._precision[:, :10] == precision[:10]).all()


@pytest.mark.slow
def test_without_data_scales_have_their_prior() -> None:
    d, sets = 3, 6
    random = np.random.default_rng(5)
    pairs = Parities(d, 2)
    model = LogLinear(pairs, np.zeros(sets), np.zeros(sets), 40, random, pairs)
    tau, alpha, sigma, centre, freedom = [], [], [], [], []
    for _ in draw(model, random, 60, 500):
        tau.append(model._tau[:, 0].copy())
        alpha.append(model._alpha.copy())
        sigma.append(model._sigma.copy())
        centre.append(model.state[:, -1].copy())
        freedom.append(model._freedom.copy())
    half_normal = np.sqrt(2.0 / np.pi)
    # 40 chains of some 50 independent draws each; grids end at 0.8 and begin at 0.002.
    assert np.mean(tau) == pytest.approx(INTERACTION_SCALES[0].size * half_normal, rel=0.06)
    assert np.mean(alpha) == pytest.approx(SOCIABILITY.size * half_normal, rel=0.06)
    assert np.median(sigma) == pytest.approx(FIELD_SCALE.median, rel=0.12)
    assert np.mean(np.square(centre)) == pytest.approx(FIELD_CENTRE**2, rel=0.06)
    for value in TAIL_FREEDOMS:
        np.testing.assert_allclose(
            np.mean(np.array(freedom) == value, axis=(0, 1)), 0.25, atol=0.02
        )


def test_draws_have_the_posterior_that_weighted_prior_draws_have() -> None:
    random = np.random.default_rng(9)
    parities, chi = Parities(2, 2), signs(2, 2)
    estimates, precision = np.array([0.75, 0.6, 0.62]), np.array([60.0, 60.0, 150.0])
    model = LogLinear(parities, estimates, precision, 16, random, parities)
    tables = np.concatenate(list(draw(model, random, 60, 400))).reshape(-1, 4)

    many = 400_000
    sigma = np.exp(
        np.clip(
            np.log(FIELD_SCALE.median) + FIELD_SCALE.spread * random.normal(size=many), -3.0, 0.92
        )
    )
    single = FIELD_CENTRE * random.normal(size=(many, 1))
    nu = random.choice(TAIL_FREEDOMS, size=(many, 2))
    single = single + sigma[:, None] * random.standard_t(nu[:, :1], size=(many, 2))
    alpha = SOCIABILITY.size * np.abs(random.normal(size=many))
    tau = INTERACTION_SCALES[0].size * np.abs(random.normal(size=many))
    shared = random.normal(size=(many, 2)).sum(axis=1) + 2.0 * random.normal(size=many)
    pair = alpha * shared + tau * random.standard_t(nu[:, 1])
    centre = estimates[:2] * precision[:2] / (precision[:2] + 3.0)
    fields = single - pair[:, None] * centre[::-1]
    energy = np.column_stack([fields, pair]) @ chi.T
    energy -= energy.max(axis=1, keepdims=True)
    drawn = np.exp(energy) / np.exp(energy).sum(axis=1, keepdims=True)
    gap = drawn @ chi - estimates
    weight = np.exp(-0.5 * (precision * gap * gap).sum(axis=1))
    weight /= weight.sum()
    assert 1.0 / np.square(weight).sum() > 3000.0
    np.testing.assert_allclose(tables.mean(axis=0), weight @ drawn, atol=0.006)
    spread = np.sqrt(weight @ np.square(drawn - weight @ drawn))
    np.testing.assert_allclose(tables.std(axis=0), spread, rtol=0.08)


def test_a_log_linear_truth_is_recovered_from_its_moments() -> None:
    d = 5
    cells = np.array(list(product([1, -1], repeat=d)))
    energy = 0.6 * cells[:, 0] * cells[:, 1] - 0.4 * cells[:, 1] * cells[:, 2] + 0.5 * cells[:, 4]
    table = np.exp(energy) / np.exp(energy).sum()
    model = joint.fit(statistics_of(table, d, 1e6))
    np.testing.assert_allclose(model.table.ravel(), table, atol=4e-4)
    modelled = np.array([len(s) <= 2 for s in model.members])
    assert (model.sensitivity[modelled] > 0.5).all()
    assert (model.sensitivity[~modelled] == 0.0).all()
    wanted = table.reshape((2,) * d).sum(axis=(0, 2, 4))
    marginal, variance = model.marginal((1, 3))
    np.testing.assert_allclose(marginal, wanted, atol=1e-3)
    assert (np.abs(marginal - wanted) <= 5 * np.sqrt(variance)).all()


@pytest.mark.parametrize("attributes", [(0,), (3,), (1, 2), (0, 2, 4), (0, 1, 2, 3, 4)])
def test_marginals_are_sums_of_the_joint(attributes: tuple[int, ...]) -> None:
    random = np.random.default_rng(3)
    table = random.dirichlet(np.ones(32))
    model = joint.fit(statistics_of(table, 5, 1e3))
    others = tuple(i for i in range(5) if i not in attributes)
    shape = (2,) * 5
    marginal, variance = model.marginal(attributes)
    np.testing.assert_allclose(marginal, model.table.reshape(shape).sum(axis=others), atol=1e-12)
    drawn = model.drawn.astype(np.float64).reshape(-1, *shape)
    summed = drawn.sum(axis=tuple(i + 1 for i in others))
    np.testing.assert_allclose(variance, summed.var(axis=0), atol=1e-8)


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("d", "draws"),
    [
        (2, 400),
        pytest.param(10, 352, marks=pytest.mark.slow),
        pytest.param(16, 88, marks=pytest.mark.slow),
    ],
)
def test_equal_statistics_give_equal_tables_and_more_attributes_fewer_draws(
    d: int, draws: int
) -> None:
    random = np.random.default_rng(4)
    margins = [np.array([p, 1 - p]) for p in random.uniform(0.3, 0.95, d)]
    table = margins[0]
    for margin in margins[1:]:
        table = np.multiply.outer(table, margin)
    statistics = statistics_of(table, d, 400.0)
    first, second = joint.fit(statistics), joint.fit(statistics)
    np.testing.assert_array_equal(first.table, second.table)
    assert len(first.drawn) == draws
    assert first.table.min() >= 0.0
    assert first.table.sum() == pytest.approx(1.0)


def pairs_hardly_known(d: int) -> tuple[Statistics, dict[tuple[int, ...], float], Floats]:
    """Return statistics with precise single attributes and imprecise pairs; and the triples."""
    random, chi = np.random.default_rng(6), signs(d, 3)
    last = d + d * (d - 1) // 2
    sparse = random.normal(size=last) * np.where(np.arange(last) < d, 0.4, 0.15)
    energy = chi[:, :last] @ sparse
    theta = chi.T @ (np.exp(energy) / np.exp(energy).sum())
    products, precisions = np.zeros((d, d)), np.where(np.eye(d) > 0, 0.0, 0.4**-2)
    noisy = theta[d:last] + 0.4 * random.normal(size=last - d)
    for (i, j), value in zip(combinations(range(d), 2), noisy, strict=True):
        products[i, j] = products[j, i] = value
    triples = dict(zip(combinations(range(d), 3), theta[last:].tolist(), strict=True))
    sure = np.full(d, 1e5)
    statistics = Statistics(theta[:d], sure, products, precisions, {})
    return statistics, triples, theta[d:last]


@pytest.mark.slow
def test_precise_triples_improve_pairs_that_are_hardly_known() -> None:
    d = 10
    without, triples, wanted = pairs_hardly_known(d)
    precise = replace(without, higher={s: (value, 1e5) for s, value in triples.items()})
    with_triples, alone = joint.fit(precise), joint.fit(without)
    pairs = np.array([len(s) == 2 for s in alone.members])

    def error(fitted: joint.Joint) -> float:
        return float(np.sqrt(np.square(fitted.coefficients[pairs] - wanted).mean()))

    assert error(with_triples) < 0.01
    assert error(alone) > 0.05
    beyond = np.array([len(s) == 3 for s in alone.members])
    assert with_triples.members == alone.members
    assert (with_triples.sensitivity[beyond] > 0.0).all()
    assert (with_triples.sensitivity <= 1.0).all()
    assert (alone.sensitivity[beyond] == 0.0).all()


@pytest.mark.slow
def test_triples_that_no_device_reports_change_no_bit() -> None:
    without, triples, _ = pairs_hardly_known(10)
    nothing = replace(without, higher={s: (value, 0.0) for s, value in triples.items()})
    first, second = joint.fit(without), joint.fit(nothing)
    np.testing.assert_array_equal(first.drawn, second.drawn)
    np.testing.assert_array_equal(first.sensitivity, second.sensitivity)


@pytest.mark.parametrize("d", [3, 4, 6, 10])
def test_moments_that_contradict_each_other_with_high_precision_still_give_a_table(d: int) -> None:
    sure = 1e15
    precision = np.where(np.eye(d) > 0, 0.0, sure)
    triples: list[tuple[int, ...]] = list(combinations(range(d), 3))
    higher = dict.fromkeys(triples, (-1.0, sure))
    ones = np.ones(d)
    model = joint.fit(Statistics(ones, sure * ones, 1.0 - np.eye(d), precision, higher))
    assert np.isfinite(model.table).all()
    assert model.table.min() >= 0.0
    assert model.table.sum() == pytest.approx(1.0)
    assert np.isfinite(model.marginal((0, 1))[1]).all()
