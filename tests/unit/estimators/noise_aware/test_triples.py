"""Check views of three categorical attributes: when they pay off, and what their estimates give."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from calmstream.estimators.marginal import sse
from calmstream.estimators.noise_aware.design import allocation
from calmstream.estimators.noise_aware.design.allocation import LEAST_REGRET, _Problem, allocate
from calmstream.estimators.noise_aware.design.triples import TripleViews
from calmstream.estimators.noise_aware.input.features import Features
from calmstream.estimators.noise_aware.input.statistics import collect
from calmstream.estimators.noise_aware.model import NoiseAwareModel
from calmstream.estimators.noise_aware.priors import STRONG_THIRD, UNPREDICTED_THIRD, PriorScales
from calmstream.estimators.papers.calm.method import Calm
from calmstream.estimators.plan.request import Request
from tests.support.noise_aware import domain_of, plan_for, tallies_of, truth

CARDS = (2, 3, 4, 2)


def _error(problem: _Problem, triples: TripleViews, shares: np.ndarray, k: int) -> float:
    """Return the expected error, with the precisions of every view added one after the other."""
    d, size = problem.d, problem.upper[0].size
    one, two = np.zeros(d), np.zeros(size)
    pairs = list(combinations(range(d), 2))
    views = [*combinations(range(d), 1), *pairs, *combinations(range(d), 3)]
    third = np.zeros(len(triples.sets))
    for view, share in zip(views, shares, strict=True):
        cells = float(np.prod(problem.r[list(view)]))
        known = share * problem.users * problem._information(cells)
        for i in view:
            one[i] += known
        for pair in combinations(view, 2):
            two[pairs.index(pair)] += known
        if len(view) == 3:
            third[triples.sets.index(view)] += known
    free = [np.prod([1 - 1 / problem.r[i] for i in own]) for own in triples.sets]
    mean = np.prod(problem.r) ** (1 / d)
    weight = np.array(free) / len(free) * mean ** (3 - k) * (k == 3)
    left = 0.02**2 / (1 + 0.02**2 * third)
    return problem.error(one, two, k)[0] + float(weight @ left)


def _problem(users: int) -> tuple[_Problem, TripleViews]:
    problem = _Problem(CARDS, users, "1", PriorScales())
    return problem, TripleViews(CARDS, lambda cells: users * problem._information(cells), 0.02)


@pytest.mark.parametrize("k", [2, 3])
def test_gains_are_the_slopes_of_the_error_by_the_shares(k: int) -> None:
    problem, triples = _problem(1 << 18)
    shares = np.random.default_rng(0).dirichlet(np.ones(14))
    one, two, three = np.split(shares, [4, 10])
    first, second = problem._precision(one, two)
    more, others, third = triples.precisions(three, 4, 6)
    _, slope1, slope2 = problem.error(first + more, second + others, k)
    found = triples.gain(slope1, slope2, triples.slope(third, k))
    for number in range(4):
        step = np.zeros(14)
        step[10 + number] = 1e-5
        up, down = (_error(problem, triples, shares + s * step, k) for s in (1, -1))
        assert found[number] == pytest.approx((down - up) / 2e-5, rel=1e-4)


@pytest.mark.parametrize(("users", "pays"), [(1 << 10, False), (1 << 22, True)])
def test_shares_with_triples_are_a_minimum(users: int, pays: bool) -> None:
    problem, triples = _problem(users)
    found = problem.pairs(3)
    assert (found.size == 3) == pays
    own = dict(zip(found.views, found.shares.tolist(), strict=True))
    views = [s for size in (1, 2, 3) for s in combinations(range(4), size)]
    shares = np.array([own.get(view, 0.0) for view in views])
    least = _error(problem, triples, shares, 3)
    random = np.random.default_rng(1)
    for _ in range(50):  # the floor of pairs costs up to 5 %
        other = _error(problem, triples, random.dirichlet(np.full(14, 0.3)), 3)
        assert other > 0.94 * least


def _regrets(shares: tuple[np.ndarray, ...], others: tuple[np.ndarray, ...]) -> list[float]:
    """Return the log ratio of the errors of two designs for usual and for strong triples."""
    problem = _Problem((4,) * 8, 1 << 19, "2", PriorScales())
    scenarios = [problem._triples(ratio) for ratio in (UNPREDICTED_THIRD, STRONG_THIRD)]
    return [
        float(np.log(problem._with(shares, t, 3) / problem._with(others, t, 3))) for t in scenarios
    ]


def _shares(found: allocation.ViewShares) -> tuple[np.ndarray, ...]:
    """Return the shares of all sets of one, two and three of eight attributes."""
    own = dict(zip(found.views, found.shares.tolist(), strict=True))
    return tuple(
        np.array([own.get(view, 0.0) for view in combinations(range(8), size)])
        for size in (1, 2, 3)
    )


def test_strong_triples_change_a_design_that_they_would_make_bad(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chosen = _shares(allocate((4,) * 8, 1 << 19, "2", 3))
    monkeypatch.setattr(allocation, "LEAST_REGRET", np.inf)
    usual = _shares(allocate((4,) * 8, 1 << 19, "2", 3))
    assert chosen[2].sum() > 0.5 > usual[2].sum()
    gained = _regrets(usual, chosen)
    assert gained[1] > LEAST_REGRET
    assert 0.0 < -gained[0] < gained[1]


@pytest.mark.parametrize(
    ("users", "epsilon", "k"), [(1 << 14, "2", 3), (1 << 18, "0.5", 3), (1 << 18, "2", 2)]
)
def test_the_design_is_the_usual_one_where_triples_show_nothing_or_are_not_asked_for(
    users: int, epsilon: str, k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = allocate((4,) * 8, users, epsilon, k)
    monkeypatch.setattr(allocation, "LEAST_REGRET", np.inf)
    assert chosen.views == allocate((4,) * 8, users, epsilon, k).views


@pytest.mark.slow
def test_no_worse_than_calm_where_three_attributes_depend_and_their_pairs_do_not() -> None:
    """Half of the records have attributes whose sums modulo 4 are 0, in threes."""
    domain, users, random = domain_of(*[4] * 6), 1 << 18, np.random.default_rng(4)
    codes = random.integers(0, 4, size=(users, 6)).astype(np.uint16)
    for a, b, c in ((0, 1, 2), (3, 4, 5)):
        codes[: users // 2, c] = -(codes[: users // 2, a] + codes[: users // 2, b]) % 4
    plan = plan_for(domain, "2", users, 3)
    other = replace(plan, groups=Calm().design(Request(domain, "2", users, 3)).groups)
    errors = np.zeros(2)
    for seed in range(3):
        models = (
            NoiseAwareModel(plan, tallies_of(plan, codes, seed)),
            Calm().fit(other, tallies_of(other, codes, seed)),
        )
        for place, model in enumerate(models):
            for own in combinations(range(6), 3):
                errors[place] += sse(model.marginal(own).table, truth(domain, codes, own))
    assert errors[0] < errors[1]


def test_reports_on_triples_lower_the_stated_error_of_triples() -> None:
    few, many = (allocate(CARDS, users, "1", 3).expected[3] for users in (1 << 18, 1 << 26))
    without = (1 - 1 / 48 ** (1 / 4)) ** 3 * PriorScales().scales[2] ** 2
    assert many < 0.1 * without < few


def test_blocks_are_pooled_by_precision_and_unbiased() -> None:
    domain, n = domain_of(2, 3, 3), 1 << 14
    plan = plan_for(domain, "4", 1 << 22, 3)
    assert any(len(view.attributes) == 3 for group in plan.groups for view in group.views)
    codes = np.random.default_rng(5).integers(0, (2, 3, 3), size=(n, 3)).astype(np.uint16)
    codes[:, 2] = (codes[:, 0] + codes[:, 1]) % 3
    features = Features((2, 3, 3))
    exact = features.interactions((0, 1, 2), truth(domain, codes, (0, 1, 2)))[1:, 1:, 1:]
    found = [
        collect(plan, tallies_of(plan, codes, seed), features, 3).blocks[0, 1, 2]
        for seed in range(40)
    ]
    energy = [np.square(block - exact).sum() * precision / 4 for block, precision in found]
    assert np.mean(energy) < 1.0 + 4 * np.sqrt(2 / (4 * 40))
    mean = np.mean([block for block, _ in found], axis=0)
    assert np.abs(mean - exact).max() < 5 * np.sqrt(1 / (40 * found[0][1]))


def _sums(n: int, d: int, seed: int) -> np.ndarray:
    """Draw records of three labels in which pairs are independent and two triples are not."""
    codes = np.random.default_rng(seed).integers(3, size=(n, d)).astype(np.uint16)
    for last in range(2, d, 3):
        codes[:, last] = (codes[:, last - 2] + codes[:, last - 1]) % 3
    return codes


def test_where_pairs_show_nothing_the_answer_is_no_worse_than_calms() -> None:
    domain, users, d = domain_of(*(3,) * 6), 1 << 18, 6
    codes = _sums(users, d, 6)
    plan = plan_for(domain, "4", users, 3)
    model = NoiseAwareModel(plan, tallies_of(plan, codes, 7))
    other = Calm().design(Request(domain, "4", users, 3))
    calm_plan = plan.__class__(
        **{f: getattr(plan, f) for f in plan.__dataclass_fields__}
        | {"method": "calm", "groups": other.groups, "parameters": other.parameters}
    )
    calm = Calm().fit(calm_plan, tallies_of(calm_plan, codes, 8))
    errors = np.zeros(2)
    for own in combinations(range(d), 3):
        table = truth(domain, codes, own)
        errors += [sse(m.marginal(own).table, table) for m in (model, calm)]
    assert errors[0] < 1.02 * errors[1]
    strong = truth(domain, codes, (0, 1, 2))
    without = np.full(27, 1 / 27)
    assert sse(model.marginal((0, 1, 2)).table, strong) < 0.01 * sse(without, strong)
