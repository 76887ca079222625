"""Check the latent-trait model.

Moments are compared with enumeration, gradients with differences, and draws with their
distributions.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, product
from math import prod

import numpy as np
import pytest
from numpy.typing import NDArray

from calmstream.estimators.noise_aware import model as dispatch
from calmstream.estimators.noise_aware.input.features import Features
from calmstream.estimators.noise_aware.input.statistics import Statistics, collect
from calmstream.estimators.noise_aware.model import REGIMES, NoiseAwareModel
from calmstream.estimators.noise_aware.models import horseshoe, low_rank
from calmstream.estimators.noise_aware.models import latent_traits as traits
from calmstream.estimators.noise_aware.models import third_moments as third
from calmstream.estimators.noise_aware.models.mixture import ByOrder, Mixtures, nodes
from calmstream.estimators.noise_aware.models.posterior import Posterior
from calmstream.estimators.noise_aware.priors import (
    FIELD_CENTRE,
    RESIDUAL_RATIO,
    RESIDUAL_SCALE,
    TRAIT_COMMON,
    TRAIT_EXCESS,
    TRAIT_FIELD_SCALE,
    TRAIT_FREEDOM,
    TRAIT_LOADING,
)
from calmstream.estimators.noise_aware.tables.binary import BinaryTables
from calmstream.estimators.noise_aware.tables.intervals import INFLATION
from calmstream.estimators.noise_aware.tables.mixed import MixedTables
from calmstream.estimators.noise_aware.tables.moments import MomentTables
from tests.support.noise_aware import chain, domain_of, plan_for, tallies_of

Floats = NDArray[np.float64]

D, CHAINS = 5, traits.CHAINS
SETS = ((0, 1, 2), (0, 2, 4), (0, 3, 4), (1, 3, 4))


@pytest.fixture
def statistics() -> Statistics:
    """Return means, some pairs and some triples of five attributes, all of different precision."""
    random = np.random.default_rng(3)
    products, precisions = random.normal(size=(2, D, D))
    precisions = np.where(precisions > -0.5, np.abs(precisions) * 30.0, 0.0)
    return Statistics(
        random.uniform(-0.9, 0.9, D),
        random.uniform(10.0, 90.0, D),
        (products + products.T) * 0.2,
        (precisions + precisions.T) * (1.0 - np.eye(D)),
        {t: (float(random.normal()), float(random.uniform(5.0, 50.0))) for t in SETS},
    )


@pytest.fixture
def model(statistics: Statistics) -> traits.Traits:
    """Return a model whose chains are in random states of different sizes."""
    random = np.random.default_rng(4)
    out = traits.Traits(statistics, random)
    out.state = random.normal(size=out.state.shape)
    for _ in range(3):
        out.draw_scales(out.given_nodes(out.state))
    return out


def _gaps(model: traits.Traits, state: Floats) -> ByOrder:
    """Return estimates less moments at a state."""
    return model.mixtures.gaps(model.given_nodes(state))[0]


def _moment(model: traits.Traits, c: int, members: tuple[int, ...]) -> float:
    """Return a moment of one chain as a sum over all cells of its joint table."""
    basis, weight = nodes(traits.TRAITS, traits.NODES)
    d = model.mixtures.d
    own = model.state[c, : (1 + traits.TRAITS) * d].reshape(-1, d)
    means = np.tanh(basis @ (own + model.state[c, (1 + traits.TRAITS) * d :, None]))
    total = 0.0
    for cell in product((1, -1), repeat=d):
        chance = weight @ ((1.0 + np.array(cell) * means) / 2.0).prod(axis=1)
        total += chance * prod(cell[i] for i in members)
    return total


def test_nodes_have_the_moments_of_a_normal_distribution() -> None:
    basis, weight = nodes(2, 5)
    x, y = basis[:, 1], basis[:, 2]
    assert weight.sum() == pytest.approx(1.0)
    np.testing.assert_array_equal(basis[:, 0], 1.0)
    moments = [weight @ (x**a * y**b) for a, b in ((1, 0), (1, 1), (2, 0), (0, 2), (4, 0), (2, 2))]
    np.testing.assert_allclose(moments, [0.0, 0.0, 1.0, 1.0, 3.0, 1.0], atol=1e-9)


def test_moments_are_those_of_the_joint_table(model: traits.Traits, statistics: Statistics) -> None:
    gaps = _gaps(model, model.state)
    for c in range(CHAINS):
        one = [statistics.means[i] - _moment(model, c, (i,)) for i in range(D)]
        np.testing.assert_allclose(gaps.one[c], one, atol=1e-12)
        for i, j in combinations(range(D), 2):
            if statistics.product_precision[i, j] > 0:
                expected = statistics.products[i, j] - _moment(model, c, (i, j))
                assert gaps.two[c, i, j] == pytest.approx(expected, abs=1e-12)
        three = [statistics.higher[t][0] - _moment(model, c, t) for t in SETS]
        np.testing.assert_allclose(gaps.three[c], three, atol=1e-6)  # single precision


def test_the_gradient_is_the_density_s(model: traits.Traits) -> None:
    _, gradient, _ = model.density(model.state)
    step = 1e-4
    for place in range(model.state.shape[1]):
        moved = np.zeros_like(model.state)
        moved[:, place] = step
        up, down = (model.density(model.state + s * moved)[0] for s in (1, -1))
        np.testing.assert_allclose(
            gradient[:, place], (up - down) / (2 * step), atol=2e-2, rtol=1e-3
        )


def test_the_density_is_prior_times_likelihood(
    model: traits.Traits, statistics: Statistics
) -> None:
    """Differences of it along a random line, from the stated distributions."""
    random = np.random.default_rng(6)
    other = model.state + 0.1 * random.normal(size=model.state.shape)

    def stated() -> Floats:
        out = np.zeros(CHAINS)
        for c in range(CHAINS):
            loss = sum(
                p * (t - _moment(model, c, (i,))) ** 2
                for i, (t, p) in enumerate(
                    zip(statistics.means, statistics.mean_precision, strict=True)
                )
            )
            for i, j in combinations(range(D), 2):
                if statistics.product_precision[i, j] > 0:
                    v = 1.0 / statistics.product_precision[i, j] + model.residual()[c, i, j]
                    loss += (statistics.products[i, j] - _moment(model, c, (i, j))) ** 2 / v
            for t, (estimate, p) in statistics.higher.items():
                loss += (estimate - _moment(model, c, t)) ** 2 / (1.0 / p + model._delta[c] ** 2)
            state = model.state[c]
            out[c] = -0.5 * loss
            nu = TRAIT_FREEDOM
            field = state[:D] / model._sigma[c]
            out[c] -= 0.5 * (nu + 1.0) * np.log1p(field**2 / nu).sum()
            for q in range(traits.TRAITS):
                alpha = model._alpha[c, q]
                own = state[D * (1 + q) : D * (2 + q)] / alpha
                common = state[D * (1 + traits.TRAITS) + 1 + q] / (TRAIT_COMMON * alpha)
                out[c] -= 0.5 * (own**2).sum() + 0.5 * common**2
            out[c] -= 0.5 * (state[D * (1 + traits.TRAITS)] / FIELD_CENTRE) ** 2
        return out

    before, current = stated(), model.density(model.state)[0]
    there = model.density(other)[0]
    model.state = other
    np.testing.assert_allclose(there - current, stated() - before, atol=1e-4)


def test_the_curvature_is_that_of_squared_gaps(model: traits.Traits) -> None:
    weights = model._weights
    step, size = 1e-5, model.state.shape[1]
    expected = np.zeros((size, size))
    i, j = model.mixtures.pairs
    for c in range(CHAINS):
        slopes = []
        for place in range(size):
            moved = np.zeros_like(model.state)
            moved[:, place] = step
            up, down = (_gaps(model, model.state + s * moved) for s in (1, -1))
            parts = [
                (a - b)[c] / (2 * step)
                for a, b in ((up.one, down.one), (up.two[:, i, j], down.two[:, i, j]))
            ]
            slopes.append(np.concatenate(parts))
        j_of = np.array(slopes)
        weight = np.concatenate([weights.one, weights.two[c, i, j]])
        expected += (j_of * weight) @ j_of.T / CHAINS
    none = ByOrder(weights.one, weights.two, np.zeros_like(weights.three))
    model._weights = none  # third moments are single precision: no differences of them
    np.testing.assert_allclose(model.curvature(), expected, rtol=1e-4, atol=1e-4)


def test_the_curvature_counts_third_moments(model: traits.Traits) -> None:
    parameters = model._parameters(model.state)
    basis, weight = nodes(traits.TRAITS, traits.NODES)
    size = parameters[0].size
    expected = np.zeros((size, size))
    for means, own in zip(
        model.mixtures.given_nodes(parameters), model._weights.three, strict=True
    ):
        bend = (1.0 - means**2) * weight
        slopes = np.zeros((len(SETS), 1 + traits.TRAITS, D))
        for row, members in zip(slopes, SETS, strict=True):
            for place in members:
                others = [i for i in members if i != place]
                row[:, place] = (bend[place] * means[others].prod(axis=0)) @ basis
        wide = slopes.reshape(len(SETS), -1)
        expected += (wide.T * own) @ wide / CHAINS
    alone = ByOrder(np.zeros(D), np.zeros((CHAINS, D, D)), model._weights.three)
    np.testing.assert_allclose(
        model.mixtures.curvature(parameters, alone), expected, rtol=1e-9, atol=1e-12
    )


def _stay(_self: traits.Traits, _q: int, known: Floats, _likelihood: Floats) -> Floats:
    return known


@pytest.mark.slow
def test_scales_are_drawn_from_their_conditionals(
    model: traits.Traits, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A chain that only draws scales visits each alpha as often as its exact conditional says."""
    monkeypatch.setattr(traits.Traits, "_stretch", _stay)
    q, d = 1, D
    own = model.state[:, d * (1 + q) : d * (2 + q)]
    common = model.state[:, (1 + traits.TRAITS) * d + 1 + q] / TRAIT_COMMON
    energy = (own**2).sum(axis=1) + common**2
    grid = TRAIT_LOADING.points
    score = -0.5 * energy[:, None] / grid**2 - (d + 1) * np.log(grid)
    score -= 0.5 * (grid / TRAIT_LOADING.size) ** 2
    chance = np.exp(score - score.max(axis=1, keepdims=True))
    chance /= chance.sum(axis=1, keepdims=True)
    count, draws = np.zeros_like(chance), 2000
    for _ in range(draws):
        model.draw_scales(model.given_nodes(model.state))
        count += model._alpha[:, q, None] == grid
    error = np.sqrt(chance * (1.0 - chance) / draws)
    assert (np.abs(count / draws - chance) <= 5.5 * error + 1e-3).all()


def test_means_are_those_of_the_state_after_scales_were_drawn(model: traits.Traits) -> None:
    before, moved = model.state.copy(), 0
    for _ in range(50):
        known = model.draw_scales(model.given_nodes(model.state))
        np.testing.assert_allclose(known, model.given_nodes(model.state), atol=1e-12)
        again, found = model.density(model.state, known), model.density(model.state)
        for one, other in zip(again, found, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12)
        moved += int((model.state != before).any())
        before = model.state.copy()
    assert moved


def test_a_stretch_keeps_the_distribution_of_alpha(
    statistics: Statistics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nothing is known it moves alpha by its prior alone: even in the logarithm, but cut."""
    monkeypatch.setattr(traits, "CHAINS", 1000)
    nothing = np.zeros((D, D))
    unknown = Statistics(np.zeros(D), np.zeros(D), nothing, nothing, {})
    model = traits.Traits(unknown, np.random.default_rng(7))
    model.state[:] = 0.0
    low, high = np.log(TRAIT_LOADING.points[[0, -1]])
    grid = np.linspace(low, high, 20_001)
    density = np.exp(-0.5 * np.square(np.exp(grid) / TRAIT_LOADING.size))
    density /= density.sum()
    model._alpha[:, 0] = np.exp(np.random.default_rng(8).choice(grid, 1000, p=density))
    for _ in range(60):
        model._stretch(0, model.given_nodes(model.state), np.zeros(1000))
    expected, logs = density @ grid, np.log(model._alpha[:, 0])
    spread = np.sqrt(density @ np.square(grid - expected))
    assert abs(logs.mean() - expected) < 5.0 * spread / np.sqrt(1000)
    assert abs(logs.std() / spread - 1.0) < 5.0 / np.sqrt(2000)


@pytest.mark.slow
def test_delta_and_sigma_are_drawn_from_their_conditionals(
    model: traits.Traits, statistics: Statistics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(traits.Traits, "_stretch", _stay)
    square = np.square(_gaps(model, model.state).three)
    noise = 1.0 / np.array([statistics.higher[t][1] for t in sorted(SETS)])
    delta, sigma = TRAIT_EXCESS.points, TRAIT_LOADING.points
    score = np.log(delta) - 0.5 * (delta / TRAIT_EXCESS.size) ** 2
    variance = noise + delta[:, None] ** 2
    of_delta = score - 0.5 * (square[:, None] / variance + np.log(variance)).sum(axis=2)
    nu, z = TRAIT_FREEDOM, model.state[:, None, :D] / sigma[:, None]
    of_sigma = -0.5 * (nu + 1.0) * np.log1p(z**2 / nu).sum(axis=2) - D * np.log(sigma)
    of_sigma -= 0.5 * (np.log(sigma / TRAIT_FIELD_SCALE.median) / TRAIT_FIELD_SCALE.spread) ** 2
    counts, draws = [np.zeros_like(of_delta), np.zeros_like(of_sigma)], 2000
    for _ in range(draws):
        model.draw_scales(model.given_nodes(model.state))
        counts[0] += model._delta[:, None] == delta
        counts[1] += model._sigma[:, None] == sigma
    for count, score in zip(counts, (of_delta, of_sigma), strict=True):
        chance = np.exp(score - score.max(axis=1, keepdims=True))
        chance /= chance.sum(axis=1, keepdims=True)
        error = np.sqrt(chance * (1.0 - chance) / draws)
        assert (np.abs(count / draws - chance) <= 5.5 * error + 1e-3).all()


def test_scales_of_residuals_are_drawn_from_their_conditionals() -> None:
    """Shape and kappa given tau; and tau, where no pair is known, from its prior."""
    random, chains = np.random.default_rng(11), 4000
    square, noise, scale = np.array([0.0, 0.09, 1.0]), np.array([0.01, 0.01, 0.1]), np.full(3, 0.5)
    many = np.tile(square, (chains, 1))
    tau, kappa2 = horseshoe.draw_scales(random, many, noise, scale[None], np.ones((chains, 3)))
    grid, shapes = RESIDUAL_RATIO.points, horseshoe.shapes().astype(np.float64)
    variance = noise[:, None] + scale[:, None] * np.square(tau[:, None, None] * grid)
    score = -0.5 * (square[:, None] / variance + np.log(variance))  # (chains, pairs, ratios)
    likely = np.exp(score - score.max(axis=2, keepdims=True))
    by_shape = (likely @ shapes.T).prod(axis=1)
    by_shape /= by_shape.sum(axis=1, keepdims=True)
    for pair in range(3):
        each = likely[:, pair, None] * shapes  # (chains, shapes, ratios)
        each /= each.sum(axis=2, keepdims=True)
        chance = np.einsum("cs,csk->ck", by_shape, each)
        share = (np.sqrt(kappa2[:, pair, None]) == grid).mean(axis=0)
        error = np.sqrt((chance * (1.0 - chance)).mean(axis=0) / chains)
        assert (np.abs(share - chance.mean(axis=0)) <= 5.5 * error + 1e-3).all()
    none = np.zeros((chains, 0))
    tau, _ = horseshoe.draw_scales(random, none, np.zeros(0), np.zeros((1, 0)), none)
    prior = np.exp(RESIDUAL_SCALE.on_grid)
    share = (tau[:, None] == RESIDUAL_SCALE.points).mean(axis=0)
    assert np.abs(share - prior / prior.sum()).max() < 0.04


def _common_cause(d: int, n: int = 20_000) -> NDArray[np.uint16]:
    """Return sparse records that one cause makes larger or smaller."""
    random = np.random.default_rng(8)
    popular = random.normal(-1.2, 0.7, d)
    size = random.normal(size=(n, 1))
    return (random.random((n, d)) < 1.0 / (1.0 + np.exp(-popular - size))).astype(np.uint16)


def _noisy(
    codes: NDArray[np.uint16], deviations: tuple[float, float, float], seed: int = 9
) -> Statistics:
    """Return all moments of up to three attributes, with normal noise of these deviations."""
    random = np.random.default_rng(seed)
    signs = 1.0 - 2.0 * codes
    n, d = signs.shape
    one, two, three = deviations
    noise = np.triu(random.normal(size=(d, d)), 1)
    apart = 1.0 - np.eye(d)
    higher = {
        (i, j, k): (float(signs[:, i] @ (signs[:, j] * signs[:, k]) / n) + e * three, three**-2)
        for (i, j, k), e in zip(
            combinations(range(d), 3), random.normal(size=d * (d - 1) * (d - 2) // 6), strict=True
        )
    }
    return Statistics(
        signs.mean(axis=0) + one * random.normal(size=d),
        np.full(d, one**-2),
        (signs.T @ signs / n + two * (noise + noise.T)) * apart,
        two**-2 * apart,
        higher,
    )


def _errors(codes: NDArray[np.uint16], means: Floats, products: Floats) -> tuple[float, float]:
    signs = 1.0 - 2.0 * codes
    upper = np.triu_indices(signs.shape[1], 1)
    pairs = (products - signs.T @ signs / len(signs))[upper]
    return float(np.square(means - signs.mean(axis=0)).sum()), float(np.square(pairs).sum())


@pytest.mark.slow
def test_one_common_cause_is_found_in_pairs_hidden_by_noise() -> None:
    codes, errors = _common_cause(24), []
    for seed in range(3):
        statistics = _noisy(codes, (0.05, 0.3, 0.3), seed)
        statistics.higher.clear()
        ours, other = traits.fit(statistics), low_rank.fit(Features((2,) * 24), statistics)
        errors.append([_errors(codes, p.means, p.products)[1] for p in (ours, other)])
    ours, other = np.mean(errors, axis=0)
    assert ours < 0.6 * other


@pytest.mark.slow
def test_triples_improve_means_and_pairs_that_are_hardly_known() -> None:
    codes = _common_cause(12)
    statistics = _noisy(codes, (0.2, 0.5, 0.1))
    read = traits.fit(statistics)
    statistics.higher.clear()
    left = traits.fit(statistics)
    with_triples, without = (_errors(codes, p.means, p.products) for p in (read, left))
    assert with_triples[0] < 0.8 * without[0]
    assert with_triples[1] < 0.7 * without[1]


@pytest.mark.slow
def test_independent_attributes_cost_what_their_margins_cost() -> None:
    random = np.random.default_rng(5)
    codes = (random.random((20_000, 16)) < random.uniform(0.1, 0.6, 16)).astype(np.uint16)
    errors = []
    for seed in range(4):
        statistics = _noisy(codes, (0.05, 0.2, 0.2), seed)
        statistics.higher.clear()
        post = traits.fit(statistics)
        own = np.outer(post.means, post.means)
        errors.append([_errors(codes, post.means, p)[1] for p in (post.products, own)])
    ours, of_margins = np.mean(errors, axis=0)
    noise = 0.2**2 * 16 * 15 / 2
    assert ours < of_margins + 0.02 * noise


def test_precise_statistics_do_not_change() -> None:
    codes = _common_cause(6)
    statistics = _noisy(codes, (1e-5, 1e-5, 1e-5))
    post = traits.fit(statistics)
    upper = np.triu_indices(6, 1)
    np.testing.assert_allclose(post.means, statistics.means, atol=2e-4)
    np.testing.assert_allclose(post.products[upper], statistics.products[upper], atol=2e-4)


@pytest.mark.parametrize(
    "deviation", [1e-12, *(pytest.param(d, marks=pytest.mark.slow) for d in (1e-6, 1.0)), 1e6]
)
def test_contradicting_statistics_are_accepted(deviation: float) -> None:
    random = np.random.default_rng(2)
    d = 7
    products = random.choice([-1.5, 1.5], size=(d, d))
    statistics = Statistics(
        random.choice([-1.2, 0.0, 1.2], size=d),
        np.full(d, deviation**-2),
        np.triu(products, 1) + np.triu(products, 1).T,
        deviation**-2 * (1.0 - np.eye(d)),
        {(0, 1, 2): (1.4, deviation**-2), (2, 4, 6): (-1.4, deviation**-2)},
    )
    post = traits.fit(statistics)
    assert (np.abs(post.means) <= 1.0).all()
    one, two = post.drawn_means, post.drawn_products
    i, j = np.triu_indices(d, 1)
    for cell in product((1, -1), repeat=2):
        a, b = cell
        chance = (1.0 + a * one[:, i] + b * one[:, j] + a * b * two[:, i, j]) / 4.0
        assert chance.min() > -1e-9
        mean = 1.0 + a * post.means[i] + b * post.means[j] + a * b * post.products[i, j]
        assert mean.min() > -1e-9
    assert np.isfinite(post.product_variance[i, j]).all()
    table, drawn = BinaryTables(post, third.fit(statistics, post), INFLATION).answer((0, 1, 2, 5))
    assert table.min() >= 0.0
    assert table.sum() == pytest.approx(1.0)
    assert np.isfinite(drawn).all()


def test_attributes_that_no_device_reports() -> None:
    codes = _common_cause(4)
    statistics = _noisy(codes, (0.02, 0.05, 0.1))
    statistics.higher.clear()
    statistics.mean_precision[3] = 0.0
    statistics.product_precision[3] = statistics.product_precision[:, 3] = 0.0
    post = traits.fit(statistics)
    assert np.isfinite(post.products).all()
    assert post.mean_variance[3] > 10.0 * post.mean_variance[:3].max()


@pytest.mark.slow
def test_equal_tallies_give_equal_answers(statistics: Statistics) -> None:
    one, two = traits.fit(statistics), traits.fit(statistics)
    np.testing.assert_array_equal(one.products, two.products)
    np.testing.assert_array_equal(one.drawn_means, two.drawn_means)


def test_one_attribute_alone() -> None:
    none = np.zeros((1, 1))
    statistics = Statistics(np.array([0.3]), np.array([1e4]), none, none, {})
    assert traits.fit(statistics).means[0] == pytest.approx(0.3, abs=0.02)


@pytest.mark.parametrize("d", [6, *(pytest.param(d, marks=pytest.mark.slow) for d in (12, 18))])
def test_binary_domains_are_fitted_with_traits(d: int) -> None:
    model, statistics = _fitted(d)
    expected = traits.fit(statistics)
    np.testing.assert_array_equal(_posterior_of(model).products, expected.products)


@pytest.mark.slow
def test_very_many_attributes_are_fitted_with_the_low_rank_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = [replace(r, most_attributes=min(r.most_attributes, 17)) for r in REGIMES if r.traits]
    monkeypatch.setattr(dispatch, "REGIMES", (*rows, *(r for r in REGIMES if not r.traits)))
    model, statistics = _fitted(18)
    expected = low_rank.fit(Features((2,) * 18), statistics)
    np.testing.assert_array_equal(_posterior_of(model).products, expected.products)


def _fitted(d: int) -> tuple[NoiseAwareModel, Statistics]:
    plan = plan_for(domain_of(*[2] * d), "2", 1 << 18, 3)
    assert max(len(view.attributes) for group in plan.groups for view in group.views) > 2
    tallies = tallies_of(plan, chain(20_000, d, 2), 3)
    model = NoiseAwareModel(plan, tallies)
    return model, collect(plan, tallies, Features((2,) * d), model.regime.orders)


def _posterior_of(model: NoiseAwareModel) -> Posterior:
    moments = model.fitted._moments if isinstance(model.fitted, MixedTables) else model.fitted
    assert isinstance(moments, MomentTables)
    return moments._posterior


def test_only_triples_that_are_known_are_read() -> None:
    codes = _common_cause(6)
    statistics = _noisy(codes, (0.1, 0.1, 0.1))
    kept = {t: v for t, v in statistics.higher.items() if t[0] == 0}
    statistics.higher.clear()
    statistics.higher.update(kept)
    assert Mixtures(statistics, 2, 5).triple_noise.size == len(kept) == 10
