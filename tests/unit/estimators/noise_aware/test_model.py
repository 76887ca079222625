from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from calmstream.common.errors import InvalidInput
from calmstream.estimators.marginal import sse
from calmstream.estimators.methods import get
from calmstream.estimators.methods.base import Request
from calmstream.estimators.noise_aware.model import NoiseAwareModel
from calmstream.estimators.numerics.subsets import sets_up_to
from calmstream.estimators.planning import empty_tallies
from calmstream.estimators.tally import Tally
from tests.support.noise_aware import chain, domain_of, plan_for, tallies_of, truth


def _assert_valid(model: NoiseAwareModel, d: int) -> None:
    for attributes in sets_up_to(d, min(d, 4)):
        answer = model.marginal(attributes)
        assert np.isfinite(answer.table).all()
        assert np.isfinite(answer.stderr).all()
        assert (answer.table >= 0).all()
        assert (answer.stderr >= 0).all()
        assert answer.table.sum() == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize(
    "cards",
    [(2,), (5,), (3, 2, 4), *(pytest.param((2,) * d, marks=pytest.mark.slow) for d in (3, 11))],
)
@pytest.mark.parametrize("epsilon", ["0.1", pytest.param("2", marks=pytest.mark.slow)])
def test_every_table_is_valid_whatever_was_counted(cards: tuple[int, ...], epsilon: str) -> None:
    domain = domain_of(*cards)
    plan = plan_for(domain, epsilon, 3000, min(2, len(cards)))
    random = np.random.default_rng(0)
    codes = random.integers(0, cards, size=(3000, len(cards))).astype(np.uint16)
    _assert_valid(NoiseAwareModel(plan, tallies_of(plan, codes, 1)), len(cards))
    one = codes[:1]
    _assert_valid(NoiseAwareModel(plan, tallies_of(plan, one, 2)), len(cards))


def test_flags_say_that_a_model_answers_and_whether_a_group_saw_it_all() -> None:
    plan = plan_for(domain_of(3, 3, 3, 3), "1", 4000, 2)
    model = NoiseAwareModel(plan, tallies_of(plan, chain(4000, 4, 1), 3))
    assert max(len(view.attributes) for group in plan.groups for view in group.views) == 2
    assert model.marginal((0, 1)).flags[:2] == ("modelled", "covered")
    assert model.marginal((0, 1, 3)).flags[0] == "modelled"
    assert "covered" not in model.marginal((0, 1, 3)).flags


def test_forged_counts_still_give_tables() -> None:
    plan = plan_for(domain_of(2, 2, 2), "1", 1000, 2)
    tallies = [
        Tally(np.full(len(g.views), 50), np.full((len(g.views), m.width), 50))
        for g, m in zip(plan.groups, plan.mechanisms, strict=True)
    ]
    _assert_valid(NoiseAwareModel(plan, tallies), 3)


def test_equal_tallies_give_equal_tables_which_agree_with_their_margins() -> None:
    plan = plan_for(domain_of(2, 3, 2, 2), "1", 20_000, 3)
    codes = np.random.default_rng(1).integers(0, (2, 3, 2, 2), size=(20_000, 4)).astype(np.uint16)
    tallies = tallies_of(plan, codes, 4)
    model, again = (NoiseAwareModel(plan, tallies) for _ in range(2))
    triple, same = model.marginal((0, 1, 2)), again.marginal((0, 1, 2))
    np.testing.assert_array_equal(triple.table, same.table)
    np.testing.assert_array_equal(triple.stderr, same.stderr)
    pairs = triple.table.reshape(2, 3, 2).sum(axis=2).ravel()
    np.testing.assert_allclose(pairs, model.marginal((0, 1)).table, atol=1e-4)
    pair = model.marginal((1, 2)).table.reshape(3, 2)
    np.testing.assert_allclose(pair.sum(axis=1), model.marginal((1,)).table, atol=1e-6)


@pytest.mark.slow
def test_errors_are_honest_however_many_reports_there_are() -> None:
    users, share = 10**9, 0.3137
    plan = plan_for(domain_of(2), "8", users, 1)
    mechanism = plan.mechanisms[0]
    errors = []
    for seed in range(20):
        random = np.random.default_rng(seed)
        histogram = random.multinomial(users, [share, 1.0 - share])  # devices are a sample too
        counts = mechanism.draw_tally(histogram, random)
        tally = Tally(np.array([histogram.sum()]), counts[None])
        answer = NoiseAwareModel(plan, [tally]).marginal((0,))
        errors.append((answer.table[0] - share) / answer.stderr[0])
        assert 1e-7 < answer.stderr[0] < 1e-4
    assert np.abs(errors).max() < 5.0
    assert 0.2 < np.std(errors) < 2.0


@pytest.mark.parametrize("epsilon", [pytest.param("0.5", marks=pytest.mark.slow), "2"])
def test_it_beats_calm_where_noise_matters(epsilon: str) -> None:
    domain, users = domain_of(*[2] * 12), 60_000
    codes = chain(users, 12, 7)
    plan = plan_for(domain, epsilon, users, 2)
    calm = get("calm").design(Request(domain, epsilon, users, 2))
    other = replace(plan, groups=calm.groups)
    pairs = list(combinations(range(12), 2))
    errors = np.zeros((3, 2))
    for seed in range(3):
        models = (
            NoiseAwareModel(plan, tallies_of(plan, codes, seed)),
            get("calm").fit(other, tallies_of(other, codes, seed)),
        )
        for m, model in enumerate(models):
            errors[seed, m] = sum(
                sse(model.marginal(p).table, truth(domain, codes, p)) for p in pairs
            )
    assert errors[:, 0].sum() < 0.9 * errors[:, 1].sum()


def test_where_pairs_show_nothing_the_answer_is_no_worse_than_calms() -> None:
    domain, users, d = domain_of(*(3,) * 6), 1 << 18, 6
    codes = np.random.default_rng(6).integers(3, size=(users, d)).astype(np.uint16)
    for last in (2, 5):  # pairs are independent, two triples are not
        codes[:, last] = (codes[:, last - 2] + codes[:, last - 1]) % 3
    plan = plan_for(domain, "4", users, 3)
    model = NoiseAwareModel(plan, tallies_of(plan, codes, 7))
    other = replace(plan, groups=get("calm").design(Request(domain, "4", users, 3)).groups)
    calm = get("calm").fit(other, tallies_of(other, codes, 8))
    errors = np.zeros(2)
    for own in combinations(range(d), 3):
        table = truth(domain, codes, own)
        errors += [sse(m.marginal(own).table, table) for m in (model, calm)]
    assert errors[0] < 1.02 * errors[1]
    strong = truth(domain, codes, (0, 1, 2))
    without = np.full(27, 1 / 27)
    assert sse(model.marginal((0, 1, 2)).table, strong) < 0.01 * sse(without, strong)


@pytest.mark.parametrize("d", [6, pytest.param(11, marks=pytest.mark.slow)])
@pytest.mark.parametrize("epsilon", ["0.5", pytest.param("2", marks=pytest.mark.slow)])
def test_intervals_cover_and_are_no_wider_than_twice_and_a_half(d: int, epsilon: str) -> None:
    domain, users = domain_of(*[2] * d), 60_000
    codes = chain(users, d, 8, keep=0.4)
    plan = plan_for(domain, epsilon, users, 2)
    away = []
    for seed in range(4):
        model = NoiseAwareModel(plan, tallies_of(plan, codes, seed))
        for attributes in combinations(range(d), 2):
            answer = model.marginal(attributes)
            away.append((answer.table - truth(domain, codes, attributes)) / answer.stderr)
    assert np.mean(np.abs(away) <= 1.96) >= 0.9
    assert np.sqrt(np.mean(np.square(away))) >= 0.4


def test_too_large_a_table_is_refused() -> None:
    plan = plan_for(domain_of(*[2] * 24), "1", 1000, 2)
    model = NoiseAwareModel(plan, empty_tallies(plan))
    with pytest.raises(InvalidInput, match="cells"):
        model.marginal(tuple(range(24)))
