"""Check the choice of a method by predicted error."""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np
import pytest

from calmstream.common.errors import PlanError
from calmstream.estimators import methods
from calmstream.estimators.domain import Domain
from calmstream.estimators.marginal import sse
from calmstream.estimators.methods.auto import Prediction, choose, pick, predictions
from calmstream.estimators.plan.request import Request
from calmstream.estimators.planning import empty_tallies
from tests.support.noise_aware import chain, domain_of, plan_for, tallies_of, truth


@pytest.mark.parametrize("epsilon", ["0.2", "1"])
def test_every_learning_method_is_listed_and_the_best_is_chosen(epsilon: str) -> None:
    request = Request(Domain.binary(6), epsilon, 20_000, 2)
    listed = predictions(request)
    assert {p.method for p in listed} <= set(methods.names())
    assert "uniform" not in {p.method for p in listed}
    errors = [p.error for p in listed if p.error is not None]
    assert errors == sorted(errors)
    assert all(p.reason for p in listed if p.error is None)
    assert choose(request).method == "noise-aware"


def test_a_clear_winner_is_chosen_and_nearly_equal_methods_count_as_equal() -> None:
    clear = [Prediction("calm", 0.1), Prediction("noise-aware", 0.2), Prediction("fc", None, "no")]
    near = [Prediction("calm", 0.1), Prediction("noise-aware", 0.11)]
    assert pick(clear).method == "calm"
    assert pick(near).method == "noise-aware"
    with pytest.raises(PlanError, match="too large"):
        pick([Prediction("fc", None, "too large")])


def test_categorical_domains_are_served() -> None:
    best = choose(Request(domain_of(9, 16, 7, 2), "1", 30_000, 2))
    assert best.error is not None
    assert best.method in methods.names()


def test_more_users_promise_less_error() -> None:
    few, many = (choose(Request(Domain.binary(6), "1", n, 2)).error for n in (2_000, 200_000))
    assert few is not None
    assert many is not None
    assert many < few


def test_the_prediction_is_of_the_size_of_the_error() -> None:
    domain, users = domain_of(*[2] * 8), 60_000
    codes = chain(users, 8, 1, keep=0.3)
    plan = plan_for(domain, "1", users, 2)
    predicted = next(
        p.error for p in predictions(Request(domain, "1", users, 2)) if p.method == "noise-aware"
    )
    model = methods.get("noise-aware").fit(plan, tallies_of(plan, codes, 0))
    error = np.mean(
        [sse(model.marginal(p).table, truth(domain, codes, p)) for p in combinations(range(8), 2)]
    )
    assert predicted is not None
    assert error / 4 < predicted < error * 4
    assert model.marginal((0, 1)).reports > 0
    assert methods.get("noise-aware").fit(plan, empty_tallies(plan)).marginal((0,)).reports == 0


@pytest.mark.slow
def test_pairs_that_no_device_reports_are_not_promised() -> None:
    request = Request(Domain.binary(32), "1", 1 << 16, 2)
    by_method = {p.method: p for p in predictions(request)}
    calm = by_method["calm"]
    assert calm.design is not None
    measured_sets = {view.attributes for group in calm.design.groups for view in group.views}
    assert len(measured_sets) < comb(32, 2) / 4
    # Of a pair's table a coefficient is a quarter; its prior mean square is 0.0175.
    assert calm.error is not None
    assert calm.error > calm.design.expected_sse[2] + 0.7 * 0.0175 / 4
    assert pick(predictions(request)).method == "noise-aware"
    covered = {p.method: p for p in predictions(Request(Domain.binary(8), "1", 1 << 18, 2))}["calm"]
    assert covered.design is not None
    assert covered.error == pytest.approx(covered.design.expected_sse[2])
