from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import log, sqrt

import pytest

from calmstream.common.errors import FatalError, PlanError
from calmstream.estimators.central.accounting import (
    Spend,
    allocate,
    parse_delta,
    rho_budget,
    zcdp_variance,
)
from calmstream.estimators.central.ledger import BudgetSpent, Ledger, read_ledger
from tests.support import central

PLAN = replace(central.PLAN, epsilon="1", releases=3)


@pytest.mark.parametrize("epsilon", ["0.01", "0.5", "1", "3", "10", "100"])
@pytest.mark.parametrize("delta", ["1e-6", "0.000001", "1e-12", "0.01"])
def test_rho_is_the_whole_of_epsilon(epsilon: str, delta: str) -> None:
    rho = rho_budget(epsilon, delta)
    spent = float(rho) + 2 * sqrt(float(rho) * log(2 / float(delta)))
    assert spent == pytest.approx(float(epsilon), abs=1e-9)
    by_zcdp = Spend(2 * rho, 1, Fraction(0), Fraction(0)).zcdp_epsilon(delta)
    assert by_zcdp == pytest.approx(float(epsilon), rel=1e-12)


@pytest.mark.parametrize(("levels", "releases"), [(1, 1), (3, 1), (5, 24), (8, 1000)])
@pytest.mark.parametrize("epsilon", ["0.1", "1", "8"])
def test_all_releases_together_cost_the_budget_and_not_more(
    levels: int, releases: int, epsilon: str
) -> None:
    one = allocate(epsilon, "1e-6", levels, releases)
    whole = one.times(releases)
    assert whole.epsilon("1e-6") == pytest.approx(float(epsilon), rel=1e-3)
    more = one.times(releases + 1)
    assert whole._delta_at(float(epsilon)) <= 5e-7 < more._delta_at(float(epsilon))
    assert whole.delta == Fraction(1, 2_000_000)
    of_quantiles = levels * one.quantile_epsilon**2 / 2 * releases
    assert float(of_quantiles / rho_budget(epsilon, "1e-6")) == pytest.approx(0.1, rel=1e-3)


def test_the_numerical_bound_needs_less_noise_for_the_same_quantiles() -> None:
    for levels in (1, 2, 3, 4):
        for epsilon, most in (("0.5", 0.76), ("1", 0.79), ("2", 0.82), ("4", 0.85), ("8", 0.88)):
            new = allocate(epsilon, "1e-6", levels, 1).variance
            assert 0.5 < float(new / zcdp_variance(epsilon, "1e-6", levels, 1)) ** 0.5 < most


def test_a_hopeless_budget_is_refused() -> None:
    with pytest.raises(PlanError, match="is too small"):
        allocate("0.01", "1e-30", 8, 10**12)
    with pytest.raises(PlanError, match="plan fewer releases or a larger epsilon"):
        allocate("0.01", "1e-6", 2, 10_000_000)


@pytest.mark.parametrize("delta", ["0", "0.2", "1e-40", "1", "-1e-6", "1E-6", " 1e-6", 1e-6, None])
def test_delta_is_a_plain_decimal_string_in_range(delta: object) -> None:
    with pytest.raises(PlanError, match="delta must"):
        parse_delta(delta)


def test_releases_add_up_to_the_budget_and_not_beyond() -> None:
    book = Ledger(PLAN)
    for window in range(3):
        assert book.spent_share == pytest.approx(window / 3)
        book = book.pay(str(window))
    with pytest.raises(BudgetSpent, match=r"release 3 is refused.*epsilon 1 of 1"):
        book.pay("3")


def test_a_release_is_never_made_twice() -> None:
    book = Ledger(PLAN).pay("0")
    with pytest.raises(BudgetSpent, match="was begun and may be published"):
        book.pay("0")
    with pytest.raises(BudgetSpent, match="was published"):
        book.finish("0").pay("0")


def test_an_account_is_of_one_topic_for_good() -> None:
    bound = Ledger(PLAN).pay("0").finish("0").pay("1").bind("topic one")
    assert read_ledger(PLAN, bound.to_bytes()) == bound
    assert bound.bind("topic one") == bound
    with pytest.raises(FatalError, match="id topic one, and this one has id topic two"):
        bound.bind("topic two")
    assert bound.pay("2").topic == "topic one"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda raw: raw[:-20], "not readable"),
        (lambda _: b"", "not readable"),
        (lambda _: b"[]", "not readable"),
        (lambda _: b"null", "not readable"),
        (lambda raw: raw.replace(b'"published": false', b'"published": true'), "checksum"),
        (lambda raw: raw.replace(b'"epsilon": "1"', b'"epsilon": "9"'), "checksum"),
        (lambda raw: raw.replace(b'"version": 2', b'"version": 3'), "version 3"),
    ],
)
def test_a_damaged_account_is_refused(damage, message: str) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
    raw = damage(Ledger(PLAN).pay("0").to_bytes())
    with pytest.raises(FatalError, match=message):
        read_ledger(PLAN, raw)
