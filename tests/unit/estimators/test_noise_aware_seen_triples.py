"""Third moments that the low-rank model reads: its conditionals against the stated likelihood."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from estimators.noise_aware import seen_triples, shared
from estimators.noise_aware.features import Features
from estimators.noise_aware.model import NoiseAwareModel
from estimators.noise_aware.seen_triples import SeenTriples
from estimators.noise_aware.statistics import Statistics
from tests.noise_aware_support import chain, domain_of, plan_for, tallies_of

Floats = NDArray[np.float64]

D = 6
CHAINS = shared.CHAINS
SETS = ((0, 1, 2), (0, 2, 5), (1, 3, 4), (2, 3, 5), (1, 4, 5), (0, 3, 5))


@pytest.fixture
def statistics() -> Statistics:
    """Means, some pairs and some triples of six attributes, all different and differently known."""
    random = np.random.default_rng(3)
    products, known = random.normal(size=(2, D, D))
    known = np.where(known > -0.5, np.abs(known) * 30.0, 0.0)
    return Statistics(
        random.uniform(-0.9, 0.9, D),
        random.uniform(10.0, 90.0, D),
        (products + products.T) * 0.2,
        (known + known.T) * (1.0 - np.eye(D)),
        {t: (float(random.normal()), float(random.uniform(5.0, 500.0))) for t in SETS},
        np.full(D, 1000, np.int64),
    )


@pytest.fixture
def sampler(statistics: Statistics) -> shared._Sampler:
    """Chains in random states, of different deltas."""
    out = shared._Sampler(Features((2,) * D), statistics)
    random = np.random.default_rng(4)
    out.m = random.uniform(-0.9, 0.9, out.m.shape)
    out.s = random.uniform(0.2, 1.0, out.m.shape)  # any: the likelihood takes it for free
    out.u = random.normal(size=out.u.shape)
    out.triples = SeenTriples(statistics, CHAINS)
    out.triples._set_delta(np.array([2, 9, 17, 21]))
    out.lay()
    return out


def _moments(m: Floats, s: Floats, u: Floats) -> tuple[Floats, dict[tuple[int, ...], float]]:
    """Second and third moments of one chain as the model states them."""
    own = np.outer(s, s) * (u @ u.T)
    third = {
        (i, j, k): m[i] * m[j] * m[k] + m[i] * own[j, k] + m[j] * own[i, k] + m[k] * own[i, j]
        for i, j, k in SETS
    }
    return np.outer(m, m) + own, third


def _likelihood(sampler: shared._Sampler, statistics: Statistics, weight: Floats) -> Floats:
    """Logarithm of the likelihood of means, pairs and triples, by its definition: (chains,)."""
    out = np.zeros(CHAINS)
    alike = 3 * len(statistics.higher) / D  # triples of an attribute
    assert sampler.triples is not None
    for c in range(CHAINS):
        m = sampler.m[c]
        second, third = _moments(m, sampler.s[c], sampler.u[c])
        out[c] -= 0.5 * (statistics.mean_precision * np.square(statistics.means - m)).sum()
        for i, j in combinations(range(D), 2):
            out[c] -= 0.5 * weight[c, i, j] * (sampler.seen[i, j] - second[i, j]) ** 2
        for t, (estimate, precision) in statistics.higher.items():
            variance = 1.0 / precision + alike * sampler.triples.delta[c] ** 2
            out[c] -= 0.5 * (estimate - third[t]) ** 2 / variance
    return out


def _weight(sampler: shared._Sampler) -> Floats:
    residual = sampler.residual()
    return np.asarray(np.where(sampler.known, 1.0 / (sampler.noise + residual), 0.0))


@pytest.mark.parametrize("i", range(D))
def test_the_conditional_of_a_mean_is_the_likelihood(
    i: int, sampler: shared._Sampler, statistics: Statistics
) -> None:
    weight, random = _weight(sampler), np.random.default_rng(i)
    form = sampler._form(slice(i, i + 1), weight[:, [i]], sampler._slope(i, weight))
    found, exact = [], []
    for _ in range(3):
        m, s = random.uniform(-1, 1, CHAINS), random.uniform(0, 1, CHAINS)
        found.append(form.score(0, m[:, None], s[:, None])[:, 0])
        sampler.m[:, i], sampler.s[:, i] = m, s
        exact.append(_likelihood(sampler, statistics, weight))
    np.testing.assert_allclose(np.diff(found, axis=0), np.diff(exact, axis=0), rtol=1e-9)


@pytest.mark.parametrize("i", [0, 3, 5])
def test_the_loadings_are_drawn_from_their_conditional(
    i: int, sampler: shared._Sampler, statistics: Statistics
) -> None:
    """Its mode has no slope and its curvature is the prior's and the likelihood's."""
    weight = _weight(sampler)
    slope = sampler._slope(i, weight)
    assert slope is not None

    def posterior(u: Floats) -> Floats:
        before = sampler.u[:, i].copy()
        sampler.u[:, i] = u
        prior = -0.5 * (np.square(u) / sampler.alpha2).sum(axis=1)
        out = prior + _likelihood(sampler, statistics, weight)
        sampler.u[:, i] = before
        return out

    class Still:
        """A source of noise without noise: what is drawn is the mode; or one unit vector."""

        def __init__(self, at: int | None = None) -> None:
            self.at = at

        def normal(self, size: tuple[int, ...]) -> Floats:
            out = np.zeros(size)
            if self.at is not None:
                out[..., self.at, :] = 1.0
            return out

    before = sampler.u.copy()

    def drawn(source: Still) -> Floats:
        sampler.u = before.copy()
        sampler.random = source  # type: ignore[assignment]
        sampler._loadings(i, weight, slope)
        out = sampler.u[:, i].copy()
        sampler.u = before.copy()
        return out

    mode, rank = drawn(Still()), shared.RANK
    step = 1e-4
    for q in range(rank):
        move = step * np.eye(rank)[q]
        tilt = (posterior(mode + move) - posterior(mode - move)) / (2 * step)
        assert np.abs(tilt).max() < 1e-5
    # Deviations are columns of a root of the covariance, on each of which the density falls by 1/2.
    for q in range(rank):
        fall = posterior(mode) - posterior(drawn(Still(q)))
        np.testing.assert_allclose(fall, 0.5, rtol=1e-9)


def test_the_size_of_a_factor_is_drawn_from_its_conditional(
    sampler: shared._Sampler, statistics: Statistics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given u / alpha: the first factor's score is the likelihood with its loadings stretched."""
    scores: list[Floats] = []

    def first(_: np.random.Generator, score: Floats, axis: int = -1) -> NDArray[np.intp]:
        scores.append(score)
        return np.zeros(np.argmax(score, axis=axis).shape, np.intp)

    monkeypatch.setattr(shared, "choose", first)
    weight, before = _weight(sampler), sampler.u.copy()
    sampler._alphas()
    unit = before[:, :, 0] / np.sqrt(0.04)
    at = [3, 20, 33]
    exact = []
    for place in at:
        sampler.u = before.copy()
        sampler.u[:, :, 0] = unit * shared._ALPHA[place]
        exact.append(_likelihood(sampler, statistics, weight) + shared._ALPHA_PRIOR[place])
    found = scores[0][:, at].T
    np.testing.assert_allclose(np.diff(found, axis=0), np.diff(exact, axis=0), rtol=1e-9)
    # The second factor's gap knows that the first was given its smallest size.
    sampler.u = before.copy()
    sampler.u[:, :, 0] = unit * shared._ALPHA[0]
    exact = []
    for place in at:
        sampler.u[:, :, 1] = before[:, :, 1] / np.sqrt(0.04) * shared._ALPHA[place]
        exact.append(_likelihood(sampler, statistics, weight) + shared._ALPHA_PRIOR[place])
    found = scores[1][:, at].T
    np.testing.assert_allclose(np.diff(found, axis=0), np.diff(exact, axis=0), rtol=1e-9)


def test_gaps_and_moves_are_those_of_the_stated_moments(
    sampler: shared._Sampler, statistics: Statistics
) -> None:
    assert sampler.triples is not None
    gap = sampler.triples.gap(sampler.m, sampler.low())
    moved = sum(
        sampler.triples.moved(sampler.m, sampler.s * sampler.u[:, :, q]) for q in range(shared.RANK)
    )
    order = [tuple(t) for t in sampler.triples.members.tolist()]
    assert order == sorted(SETS)
    for c in range(CHAINS):
        _, third = _moments(sampler.m[c], sampler.s[c], sampler.u[c])
        _, without = _moments(sampler.m[c], sampler.s[c], 0.0 * sampler.u[c])
        for n, t in enumerate(order):
            assert gap[c, n] == pytest.approx(statistics.higher[t][0] - third[t])
            assert moved[c, n] == pytest.approx(third[t] - without[t])


def test_delta_is_drawn_from_its_posterior_on_the_grid(statistics: Statistics) -> None:
    many = 200_000
    triples = SeenTriples(statistics, many)
    left = np.array([0.1, -0.3, 0.05, 0.2, -0.15, 0.4])
    triples.draw_delta(np.tile(left, (many, 1)), np.random.default_rng(5))
    precision = np.array([statistics.higher[t][1] for t in sorted(SETS)])
    grid = seen_triples._DELTA
    variance = 1.0 / precision + np.square(grid)[:, None]
    score = -0.5 * (np.square(left) / variance + np.log(variance)).sum(axis=1)
    # Half-normal; the grid is even on the logarithmic scale.
    score += np.log(grid) - 0.5 * np.square(grid / seen_triples.BEYOND_SIZE)
    exact = np.exp(score - score.max())
    exact /= exact.sum()
    found = (triples.delta[:, None] == grid).mean(axis=0)
    assert np.abs(found - exact).max() < 6 * np.sqrt(0.25 / many)
    assert np.abs(found - 1 / grid.size).max() > 0.05  # the data say something


def test_an_attribute_in_no_triple_has_nothing_added(statistics: Statistics) -> None:
    statistics.higher.clear()
    statistics.higher[0, 1, 2] = (0.3, 50.0)
    triples = SeenTriples(statistics, CHAINS)
    m, levers = np.full((CHAINS, D), 0.5), np.full((CHAINS, shared.RANK, D), 0.1)
    none = (np.zeros(D), np.zeros((CHAINS, D)))
    slope = triples.slope(4, m, levers, none)
    assert not slope.of_mean(levers[:, :, 4]).any()
    assert not any(part.any() for part in slope.of_loadings(m[:, [4]], m[:, [4]]))
    assert triples.slope(1, m, levers, none).of_mean(levers[:, :, 1]).any()


def _baskets(n: int, d: int) -> NDArray[np.uint16]:
    """Sparse records that a common cause makes larger or smaller."""
    random = np.random.default_rng(8)
    popular = random.normal(-1.8, 0.7, d)
    size = random.normal(size=(n, 1))
    return (random.random((n, d)) < 1.0 / (1.0 + np.exp(-popular - size))).astype(np.uint16)


def _noisy(codes: NDArray[np.uint16], deviations: tuple[float, float, float]) -> Statistics:
    """All moments of up to three attributes, with normal noise of these deviations."""
    random = np.random.default_rng(9)
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
        np.full(d, n, np.int64),
    )


def test_triples_tell_means_and_pairs_that_are_hardly_known() -> None:
    codes = _baskets(20_000, 12)
    signs = 1.0 - 2.0 * codes
    means, products = signs.mean(axis=0), signs.T @ signs / len(signs)
    statistics, features = _noisy(codes, (0.2, 0.5, 0.1)), Features((2,) * 12)
    upper = np.triu_indices(12, 1)
    errors = []
    for triples in (False, True):
        post = shared.fit(features, statistics, triples=triples)
        error = np.square(post.products - products)[upper].sum()
        errors.append((np.square(post.means - means).sum(), error))
    (mean_without, pair_without), (mean_with, pair_with) = errors
    assert mean_with < 0.8 * mean_without
    assert pair_with < 0.7 * pair_without


def test_without_triples_no_bit_changes() -> None:
    statistics, features = _noisy(_baskets(2000, 6), (0.1, 0.2, 0.3)), Features((2,) * 6)
    pairs = shared.fit(features, statistics)
    statistics.higher.clear()
    asked = shared.fit(features, statistics, triples=True)
    np.testing.assert_array_equal(asked.products, pairs.products)
    np.testing.assert_array_equal(asked.drawn_products, pairs.drawn_products)


@pytest.mark.parametrize(("d", "read"), [(10, False), (17, True)])
def test_the_low_rank_model_reads_triples_where_there_is_no_joint_one(d: int, read: bool) -> None:
    domain, users = domain_of(*[2] * d), 1 << 18
    plan = plan_for(domain, "2", users, 3)
    assert {len(v.attributes) for g in plan.groups for v in g.views} >= {3}
    model = NoiseAwareModel(plan, tallies_of(plan, chain(20_000, d, 2), 3))
    expected = shared.fit(model._features, model._statistics, triples=read)
    other = shared.fit(model._features, model._statistics, triples=not read)
    np.testing.assert_array_equal(model._posterior.products, expected.products)
    assert not np.array_equal(model._posterior.products, other.products)
