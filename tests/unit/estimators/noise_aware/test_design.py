from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from calmstream.estimators.noise_aware import design
from calmstream.estimators.noise_aware.design import PriorScales, _Problem, allocate

CARDS = (2, 3, 4, 2)


def _problem(users: int = 1 << 18, cards: tuple[int, ...] = CARDS) -> _Problem:
    return _Problem(cards, users, "1", PriorScales())


@pytest.mark.parametrize("cards", [CARDS, (2,) * 5])
def test_precisions_are_sums_over_all_views(cards: tuple[int, ...]) -> None:
    problem = _problem(cards=cards)
    shares = np.random.default_rng(0).dirichlet(np.ones(len(problem.views)))
    held = problem._sets(shares)
    found = problem.precision @ shares
    for own in (s for size in (1, 2, 3) for s in combinations(range(len(cards)), size)):
        wanted = 0.0
        for view, share in zip(held.views, held.shares.tolist(), strict=True):
            if set(own) <= set(view):
                cells = int(np.prod([cards[i] for i in view]))
                wanted += share * problem.users * design.oracle("1", cells)[1]
        place = problem.sets.index(tuple(sorted(cards[i] for i in own)))
        assert found[place] == pytest.approx(wanted)


@pytest.mark.parametrize("k", [2, 3])
def test_slopes_are_those_of_the_error(k: int) -> None:
    problem = _problem()
    shares = np.random.default_rng(0).dirichlet(np.ones(len(problem.views)))
    for scenario in problem.scenarios():
        _, slope = problem.error(shares, scenario, k)
        for number, step in enumerate(1e-6 * np.eye(len(shares))):
            up, down = (problem.error(shares + s * step, scenario, k)[0] for s in (1, -1))
            assert slope[number] == pytest.approx((down - up) / 2e-6, rel=1e-3)


def test_given_one_scenario_no_other_shares_have_a_smaller_error() -> None:
    problem, random = _problem(), np.random.default_rng(1)
    even = np.full(len(problem.views), 1.0 / len(problem.views))
    for scenario in problem.scenarios():
        best = problem.best(even, [scenario], np.ones(1), 3)
        least = problem.error(best, scenario, 3)[0]
        for _ in range(30):
            other = random.dirichlet(np.full(len(best), 0.3))
            assert problem.error(other, scenario, 3)[0] > 0.99 * least


@pytest.mark.parametrize("d", [2, 3, 5, 9, 10, 16, 17, pytest.param(40, marks=pytest.mark.slow)])
@pytest.mark.parametrize("epsilon", ["0.05", "1", "4"])
def test_designs_of_bits_hold_every_pair_and_stay_small(d: int, epsilon: str) -> None:
    for k in {1, 2, min(d, 6)}:
        found = allocate((2,) * d, 20_000, epsilon, k)
        assert found.shares.sum() == pytest.approx(1.0)
        assert (found.shares > 0).all()
        assert len(set(found.views)) == len(found.views)
        assert max(map(len, found.views)) <= (4 if d <= design.SMALL else 3)
        pairs = {pair for view in found.views for pair in combinations(view, 2)}
        assert pairs == set(combinations(range(d), 2))
