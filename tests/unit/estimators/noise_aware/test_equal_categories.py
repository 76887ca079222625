"""Check that categories of several attributes that hold the same records are found and used.

Covariances and pooled shares are compared with exact ones; sets are searched in drawn statistics.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from math import sqrt

import numpy as np
import pytest

from calmstream.estimators.domain import Attribute, Domain
from calmstream.estimators.methods.noise_aware import NoiseAware
from calmstream.estimators.noise_aware.input.features import Features
from calmstream.estimators.noise_aware.input.statistics import Statistics, collect
from calmstream.estimators.noise_aware.models import equal_categories, low_rank
from calmstream.estimators.noise_aware.models.equal_categories import Given
from calmstream.estimators.noise_aware.models.equal_search import Equal, Shares, _evidence, find
from calmstream.estimators.noise_aware.tables.intervals import INFLATION
from calmstream.estimators.noise_aware.tables.moments import MomentTables
from tests.support.noise_aware import crossed, plan_for, tallies_of, truth

CARDS = (3, 2, 4, 3, 5, 3)
SHARE = 0.25
NONE = (0.0, 0.0, 0.0, 0.0, 0.0, 1.0)  # no exceptions
MEMBERS = Equal((0, 1, 2, 3), (1, 0, 3, 2), SHARE, 1.0, NONE)


def _margins(random: np.random.Generator, cards: tuple[int, ...], one: Equal) -> list[np.ndarray]:
    """Return margins that have the set's share at its categories."""
    margins = [random.dirichlet(np.full(r, 4.0)) for r in cards]
    for i, category in zip(one.attributes, one.categories, strict=True):
        rest = margins[i].copy()
        rest[category] = 0.0
        margins[i] = rest / rest.sum() * (1.0 - one.share)
        margins[i][category] = one.share
    return margins


def _joint(margins: list[np.ndarray], one: Equal) -> np.ndarray:
    """Return the joint table: inside of the set all members, outside independence."""
    inside, outside = np.ones(()), np.ones(())
    for i, margin in enumerate(margins):
        here = there = margin
        if i in one.attributes:
            here, there = np.zeros_like(margin), margin / (1.0 - one.share)
            category = one.categories[one.attributes.index(i)]
            here[category], there = 1.0, there.copy()
            there[category] = 0.0
        inside = np.multiply.outer(inside, here)
        outside = np.multiply.outer(outside, there)
    return one.share * inside + (1.0 - one.share) * outside


def _moments(features: Features, table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the exact first and second moments of a joint table."""
    cells = np.indices(table.shape).reshape(table.ndim, -1)
    rows = np.hstack([code[cell] for code, cell in zip(features.codes, cells, strict=True)])
    weights = table.ravel()
    return weights @ rows, (rows * weights[:, None]).T @ rows


def _observed(
    features: Features,
    moments: tuple[np.ndarray, np.ndarray],
    first: float,
    second: float,
    seed: int,
) -> Statistics:
    """Return moments with normal noise of these deviations, in the free directions only."""
    random = np.random.default_rng(seed)
    free = np.zeros((features.size, features.size))
    for own, r in zip(features.slices, features.cardinalities, strict=True):
        free[own, own] = np.eye(r) - 1.0 / r if r > 2 else 1.0
    drawn = np.triu(random.normal(size=free.shape), 1)
    noise = free @ (drawn + drawn.T) @ free
    cross = crossed(features)
    return Statistics(
        moments[0] + first * free @ random.normal(size=features.size),
        np.full(features.size, first**-2),
        np.where(cross, moments[1] + second * noise, 0.0),
        np.where(cross, second**-2, 0.0),
        {},
    )


def _labels(
    cards: tuple[int, ...], one: Equal | None = None, label: str = "missing"
) -> list[list[str]]:
    """Return labels that all differ, except that a set's categories share one."""
    labels = [[f"{i}.{c}" for c in range(r)] for i, r in enumerate(cards)]
    if one is not None:
        for i, category in zip(one.attributes, one.categories, strict=False):
            labels[i][category] = label
    return labels


def test_the_covariance_is_that_of_independence_outside_of_the_set() -> None:
    features = Features(CARDS)
    margins = _margins(np.random.default_rng(1), CARDS, MEMBERS)
    means, products = _moments(features, _joint(margins, MEMBERS))
    none = np.zeros(products.shape)
    statistics = Statistics(means, np.full(means.size, 1e6), none, none, {})
    given = Given(features, statistics, MEMBERS)
    exact = (products - np.outer(means, means))[np.ix_(given.own, given.own)]
    assert np.allclose(given.covariance(means)[given.pairs], exact[given.pairs], atol=1e-12)
    assert np.abs(exact).max() > 0.1


def test_shares_are_those_of_the_margins() -> None:
    features = Features(CARDS)
    margins = _margins(np.random.default_rng(2), CARDS, MEMBERS)
    moments = _moments(features, _joint(margins, MEMBERS))
    exact = Shares.of(features, _observed(features, moments, 1e-9, 1.0, 1))
    assert np.allclose(exact.share, np.concatenate(margins), atol=1e-7)
    drawn = [
        Shares.of(features, _observed(features, moments, 0.1, 1.0, seed)) for seed in range(2000)
    ]
    spread = np.var([one.share for one in drawn], axis=0)
    # The relative deviation of a variance of 2000 draws is 0.03.
    assert np.allclose(spread, drawn[0].variance, rtol=0.16)


def test_common_shares_are_least_squares() -> None:
    features = Features((3, 2, 4))
    one = Equal((0, 1, 2), (1, 1, 3), 0.25, 1.0, NONE)
    random = np.random.default_rng(3)
    means = np.concatenate(
        [c.T @ p for c, p in zip(features.codes, _margins(random, (3, 2, 4), one), strict=True)]
    )
    precision = np.repeat([400.0, 900.0, 250.0], features.widths)
    none = np.zeros((features.size, features.size))
    statistics = Statistics(
        means + 0.02 * np.array([1.0, 0.5, -1.5, 1.0, 0.3, 0.3, -1.2, 0.6]),
        precision,
        none,
        none,
        {},
    )
    found = equal_categories.with_common_shares(features, statistics, [one])
    # The same by conditioning: margins with isotropic noise in free directions, and differences
    # between shares that are normal with half of the slack's variance for each of two members.
    places = [0 + 1, 3, 4 + 3]
    scale = np.array([1 / sqrt(3), -0.5, 0.5])
    offset = np.array([1 / 3, 0.5, 0.25])
    free = np.zeros((features.size, features.size))
    for own, r in zip(features.slices, features.cardinalities, strict=True):
        free[own, own] = (np.eye(r) - 1.0 / r if r > 2 else np.eye(1)) / precision[own][0]
    for k, i in enumerate(one.attributes):
        others = [a for a in range(3) if a != k]
        rows = np.zeros((3, features.size))
        rows[np.arange(3), places] = scale
        variance = np.diag(rows @ free @ rows.T)
        shares = offset + rows @ statistics.means
        weight = 1.0 / variance[others]
        target = weight @ shares[others] / weight.sum()
        slack = (0.02 * one.share) ** 2
        noise = 1.0 / weight.sum() + slack
        own = features.slices[i]
        gain = free @ rows[k] / (variance[k] + noise)
        mean = statistics.means + gain * (target - shares[k])
        after = free - np.outer(gain, rows[k] @ free)
        assert np.allclose(found.means[own], mean[own], atol=1e-12)
        r = features.cardinalities[i]
        if r == 2:
            assert 1.0 / found.mean_precision[own][0] == pytest.approx(after[own, own][0, 0])
            continue
        basis = np.linalg.svd(np.eye(r) - 1.0 / r)[0][:, : r - 1]
        stated = np.linalg.inv(basis.T @ np.diag(found.mean_precision[own]) @ basis)
        assert np.allclose(stated, basis.T @ after[own, own] @ basis, rtol=1e-9, atol=1e-15)


def test_a_set_is_found_although_noise_hides_each_pair() -> None:
    cards = (3,) * 6 + (2, 4, 5, 2)
    one = Equal(tuple(range(6)), (1, 0, 2, 1, 1, 0), SHARE, 1.0, NONE)
    features = Features(cards)
    total = 0.0
    for seed in range(20):
        margins = _margins(np.random.default_rng(seed), cards, one)
        moments = _moments(features, _joint(margins, one))
        # The strength of one pair, 1, is known to about 0.8.
        statistics = _observed(features, moments, 0.08, 0.65, seed)
        for other in find(features, statistics, _labels(cards, one)):
            if set(zip(other.attributes, other.categories, strict=True)) <= set(
                zip(one.attributes, one.categories, strict=True)
            ):
                total += other.probability * len(other.attributes) / 6.0
    assert total > 12.0


@pytest.mark.parametrize("named", [0, 3, 4])
def test_a_set_is_found_surely_where_pairs_are_visible(named: int) -> None:
    features = Features(CARDS)
    margins = _margins(np.random.default_rng(4), CARDS, MEMBERS)
    moments = _moments(features, _joint(margins, MEMBERS))
    statistics = _observed(features, moments, 0.01, 0.05, 5)
    some = replace(MEMBERS, attributes=MEMBERS.attributes[:named])
    (found,) = find(features, statistics, _labels(CARDS, some))
    assert (found.attributes, found.categories) == (MEMBERS.attributes, MEMBERS.categories)
    assert found.share == pytest.approx(SHARE, abs=0.01)
    assert found.probability > 0.999
    assert found.strength > 0.95


def test_numbers_are_no_names_of_a_set() -> None:
    cards = (3,) * 6 + (2, 4, 5, 2)
    one = Equal(tuple(range(6)), (1, 0, 2, 1, 1, 0), SHARE, 1.0, NONE)
    features = Features(cards)
    margins = _margins(np.random.default_rng(3), cards, one)
    statistics = _observed(features, _moments(features, _joint(margins, one)), 0.08, 0.65, 3)

    def probability(label: str) -> float:
        return sum(o.probability for o in find(features, statistics, _labels(cards, one, label)))

    assert probability("missing") > 0.8
    assert probability("0") == probability("1.5") < 0.3


@pytest.mark.parametrize("second", [0.05, 0.2, 0.65])
def test_independent_attributes_have_no_sets(second: float) -> None:
    # Equal shares and one label for all: only the pairs say that these are no equal categories.
    features = Features(CARDS)
    total = 0.0
    for seed in range(40):
        margins = _margins(np.random.default_rng(seed), CARDS, MEMBERS)
        means = np.concatenate([c.T @ p for c, p in zip(features.codes, margins, strict=True)])
        statistics = _observed(features, (means, np.outer(means, means)), 0.08, second, seed)
        found = find(features, statistics, _labels(CARDS, MEMBERS))
        total += sum(one.probability for one in found)
    assert total < 4.0


@pytest.mark.parametrize("t", [-3.0, 0.0, 0.28, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("information", [1e-6, 3.0, 1e3, 2e4, 1e9])
def test_the_evidence_is_the_ratio_of_averaged_likelihoods(t: float, information: float) -> None:
    # Between 0 and 0.375 with 2e4, likelihoods underflow against each other.
    found, strengths = _evidence(t * information, information)
    assert sum(strengths) == pytest.approx(1.0)
    near, weaker = np.linspace(0.75, 1.0, 6), np.linspace(0.0, 0.7, 8)
    falling = np.exp(-5.0 * weaker)

    def averaged(strengths: np.ndarray, weights: np.ndarray) -> float:
        logs = -0.5 * information * np.square(t - strengths)
        return float(logs.max() + np.log(weights @ np.exp(logs - logs.max())))

    equal = averaged(near, np.array([0.1] * 5 + [0.5]))
    other = averaged(np.append(weaker, 0.0), np.append(0.5 * falling / falling.sum(), 0.5))
    assert found == pytest.approx(equal - other, rel=1e-9, abs=1e-9)


def test_a_category_that_only_follows_the_others_is_no_member() -> None:
    # The last category depends on each of the others by 0.6; the others are equal.
    features = Features(CARDS)
    margins = _margins(np.random.default_rng(6), CARDS, MEMBERS)
    means, products = _moments(features, _joint(margins, MEMBERS))
    apart = np.outer(means, means)
    last = features.slices[MEMBERS.attributes[-1]]
    strength = np.ones(products.shape)
    strength[last] = strength[:, last] = 0.6
    statistics = _observed(features, (means, apart + strength * (products - apart)), 0.01, 0.05, 7)
    (found,) = find(features, statistics, _labels(CARDS, MEMBERS))
    assert found.attributes == MEMBERS.attributes[:-1]


def test_dependence_that_is_too_strong_to_exist_is_no_equality() -> None:
    # Forged reports can give such counts. Every seed of a set is a pair of them.
    features = Features(CARDS)
    margins = _margins(np.random.default_rng(6), CARDS, MEMBERS)
    means, products = _moments(features, _joint(margins, MEMBERS))
    apart = np.outer(means, means)
    statistics = _observed(features, (means, apart + 1.5 * (products - apart)), 0.01, 0.05, 7)
    assert find(features, statistics, _labels(CARDS, MEMBERS)) == []


def test_weaker_dependence_is_no_equality() -> None:
    features = Features(CARDS)
    margins = _margins(np.random.default_rng(6), CARDS, MEMBERS)
    means, products = _moments(features, _joint(margins, MEMBERS))
    products = np.outer(means, means) + 0.5 * (products - np.outer(means, means))
    statistics = _observed(features, (means, products), 0.01, 0.05, 7)
    assert find(features, statistics, _labels(CARDS, MEMBERS)) == []


def test_without_a_set_the_posterior_is_that_of_the_low_rank_model() -> None:
    features = Features((3, 4, 2))
    margins = [np.full(r, 1.0 / r) for r in features.cardinalities]
    means = np.concatenate([c.T @ p for c, p in zip(features.codes, margins, strict=True)])
    statistics = _observed(features, (means, np.outer(means, means)), 0.05, 0.3, 8)
    labels = _labels(features.cardinalities)
    assert find(features, statistics, labels) == []
    found, plain = (
        equal_categories.fit(features, statistics, labels),
        low_rank.fit(features, statistics),
    )
    assert (found.products == plain.products).all()
    assert (found.drawn_means == plain.drawn_means).all()


def _dependent(random: np.random.Generator, one: Equal) -> np.ndarray:
    """Return a joint table with any dependence outside of the set."""
    table = random.dirichlet(np.full(int(np.prod(CARDS)), 0.3)).reshape(CARDS)
    for i, category in zip(one.attributes, one.categories, strict=True):
        np.moveaxis(table, i, 0)[category] = 0.0
    table *= (1.0 - one.share) / table.sum()
    inside = np.ix_(*([c] for c in one.categories), *(range(r) for r in CARDS[4:]))
    table[inside] = one.share * random.dirichlet(np.ones(15)).reshape(1, 1, 1, 1, 5, 3)
    return table


def test_margins_determine_what_equality_says_and_the_rest_stays() -> None:
    features, random = Features(CARDS), np.random.default_rng(10)
    means, exact = _moments(features, _dependent(random, MEMBERS))
    none = np.zeros(exact.shape)
    statistics = Statistics(means, np.full(means.size, 1e6), none, none, {})
    given = Given(features, statistics, MEMBERS)
    where = np.ix_(given.own, given.own)
    # Change all that equality determines: the table's rows and columns of the set's categories.
    keep = np.eye(given.own.size)
    for i, category in zip(MEMBERS.attributes, MEMBERS.categories, strict=True):
        own = np.flatnonzero(np.isin(given.own, np.arange(features.size)[features.slices[i]]))
        code = features.codes[i][category]
        keep[np.ix_(own, own)] -= np.outer(code, code) / (code @ code)
    wrong = random.normal(size=exact[where].shape)
    wrong = exact[where] + wrong - keep @ wrong @ keep
    found = given.products(means, wrong)
    assert np.abs(wrong - exact[where])[given.pairs].max() > 1.0
    assert np.allclose(found[given.pairs], exact[where][given.pairs], atol=1e-12)


def test_estimates_correct_a_set_with_exceptions() -> None:
    features = Features(CARDS)
    margins = _margins(np.random.default_rng(11), CARDS, MEMBERS)
    means, products = _moments(features, _joint(margins, MEMBERS))
    apart = np.outer(means, means)
    right = apart + 0.9 * (products - apart)
    errors = []
    for deviation in (10.0, 1e-4):
        precision = np.where(crossed(features), deviation**-2, 0.0)
        statistics = Statistics(means, np.full(means.size, 1e6), right, precision, {})
        given = Given(features, statistics, MEMBERS)
        where = np.ix_(given.own, given.own)
        away = given.products(means, right[where]) - right[where]
        errors.append(float(np.abs(away[given.pairs]).max()))
    assert errors[0] == pytest.approx(
        0.1 * np.abs(products - apart)[where][given.pairs].max(), rel=0.3
    )
    assert errors[1] < 0.01 * errors[0]


def test_an_unsure_set_moves_second_moments_in_part_and_widens_them() -> None:
    features = Features(CARDS)
    margins = _margins(np.random.default_rng(9), CARDS, MEMBERS)
    moments = _moments(features, _joint(margins, MEMBERS))
    statistics = _observed(features, moments, 0.05, 0.5, 9)
    posterior = low_rank.fit(features, statistics)
    sure, unsure = (
        equal_categories.with_sets(
            features, statistics, posterior, [replace(MEMBERS, probability=w)]
        )
        for w in (1.0, 0.25)
    )
    step = sure.products - posterior.products
    assert np.abs(step).max() > 0.1
    assert np.allclose(unsure.products, posterior.products + 0.25 * step)
    mixed = 0.75 * posterior.product_variance + 0.25 * sure.product_variance
    assert np.allclose(unsure.product_variance, mixed + 0.1875 * np.square(step))
    moved = (unsure.drawn_products != posterior.drawn_products).any(axis=(1, 2))
    assert moved.sum() == 10
    assert (sure.drawn_products != posterior.drawn_products).any(axis=(1, 2)).all()
    assert np.allclose(sure.products, sure.products.T)


@pytest.mark.slow
def test_records_without_an_answer_to_all_questions_are_estimated_with_less_error() -> None:
    cards, users = (3,) * 6 + (2, 4), 1 << 16
    one = Equal(tuple(range(6)), (2,) * 6, 0.2, 1.0, NONE)
    labels = [("no", "yes", "not asked")] * 6 + [("a", "b"), ("a", "b", "c", "d")]
    domain = Domain(tuple(Attribute(f"q{i}", own) for i, own in enumerate(labels)))
    plan = plan_for(domain, "0.5", users, 2)
    targets = list(combinations(range(6), 2))
    errors, inside = np.zeros(2), []
    for seed in range(4):
        random = np.random.default_rng(seed)
        codes = np.stack([random.integers(r, size=users) for r in cards], axis=1).astype(np.uint16)
        codes[:, :6] %= 2
        codes[random.random(users) < one.share, :6] = 2
        tallies = tallies_of(plan, codes, seed)
        statistics = collect(plan, tallies, Features(cards), 3)
        posterior = low_rank.fit(Features(cards), statistics)
        plain = MomentTables(Features(cards), posterior, None, INFLATION, {})
        model = NoiseAware().fit(plan, tallies)
        for target in targets:
            right, found = truth(domain, codes, target), model.marginal(target)
            errors[0] += np.square(plain.answer(target)[0].ravel() - right).sum()
            errors[1] += np.square(found.table - right).sum()
            inside.append(np.abs(found.table - right) < 1.96 * found.stderr)
    assert errors[1] < 0.5 * errors[0]
    assert np.mean(inside) > 0.9
