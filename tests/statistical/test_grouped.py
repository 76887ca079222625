from __future__ import annotations

import numpy as np
import pytest

from calmstream.estimators import methods
from calmstream.estimators.analysis.grouped import GroupedTable, conditional, grouped
from calmstream.estimators.analysis.grouping import parse
from calmstream.estimators.numerics.contraction import contract
from tests.support.attacks.forgery import honest
from tests.support.plans import draft, mixed_domain
from tests.support.repeats import repeats

DOMAIN = mixed_domain(6, 4, 2)
GROUPS = parse("a0=0,1|2,3|4,5;a1=0,3|1,2", DOMAIN)
TRUTH = np.random.default_rng(4).dirichlet(np.full(DOMAIN.size(), 2.0)).reshape(6, 4, 2)
USERS = 40_000


def answers(method: str, names: list[str], repeats: int) -> list[GroupedTable]:
    plan, _ = draft(DOMAIN, "1", USERS, 2, method)
    random = np.random.default_rng(8)
    groupings = {i: g for i, g in GROUPS.items() if DOMAIN.names[i] in names}
    fitted = (methods.fit(plan, honest(plan, TRUTH, USERS, random)) for _ in range(repeats))
    return [grouped(model, DOMAIN, names, groupings) for model in fitted]


@pytest.mark.parametrize("method", ["am", pytest.param("calm", marks=pytest.mark.slow)])
def test_the_covariance_of_groups_is_that_of_repeated_collections(method: str) -> None:
    repeats = 400
    found = answers(method, ["a0", "a1"], repeats)
    truth = contract(TRUTH.sum(axis=2), [GROUPS[0].member, GROUPS[1].member]).ravel()
    away = np.stack([one.raw.ravel() - truth for one in found])
    stated = np.mean([one.covariance for one in found if one.covariance is not None], axis=0)
    # Unbiased: means of 400 within five standard errors.
    assert (np.abs(away.mean(axis=0)) < 5 * np.sqrt(np.diag(stated) / repeats)).all()
    seen = away.T @ away / repeats
    scale = np.sqrt(np.outer(np.diag(stated), np.diag(stated)))
    # An entry of an empirical correlation deviates by at most sqrt(2 / repeats).
    assert np.abs((seen - stated) / scale).max() < 5 * np.sqrt(2 / repeats)
    independent = np.mean([np.square(one.stderr).sum() for one in found]) / np.mean(
        np.square(away).sum(axis=1)
    )
    assert independent == pytest.approx(1.0, abs=0.25)


@pytest.mark.parametrize(
    "method", ["am", "calm", pytest.param("noise-aware", marks=pytest.mark.slow)]
)
def test_intervals_of_groups_and_of_proportions_hold_the_truth(method: str) -> None:
    found = answers(method, ["a0", "a1"], repeats(6, 12) if method == "noise-aware" else 60)
    truth = contract(TRUTH.sum(axis=2), [GROUPS[0].member, GROUPS[1].member])
    given = truth / truth.sum(axis=1, keepdims=True)
    away, away_given = [], []
    for one in found:
        away.append((one.raw - truth) / one.stderr)
        shown = conditional(one, ["a0"])
        away_given.append((shown.table - given) / shown.stderr)
    for deviations in (np.array(away), np.array(away_given)):
        assert (np.abs(deviations) <= 1.96).mean() >= 0.9
        assert 0.5 <= np.sqrt(np.square(deviations).mean()) <= 1.25
