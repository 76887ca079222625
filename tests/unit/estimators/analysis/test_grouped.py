from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from calmstream.common.errors import InvalidInput
from calmstream.estimators import methods
from calmstream.estimators.analysis.grouped import (
    GroupedTable,
    conditional,
    difference,
    first_groups,
    grouped,
)
from calmstream.estimators.analysis.grouping import parse
from calmstream.estimators.domain import Domain
from calmstream.estimators.methods.base import Model
from tests.support.attacks.forgery import honest
from tests.support.plans import draft, mixed_domain

METHODS = ("am", "calm", "noise-aware", "fc", "rr-independent")
DOMAIN = mixed_domain(3, 4, 2)


def fitted(method: str, domain: Domain = DOMAIN, users: int = 60_000, seed: int = 1) -> Model:
    plan, _ = draft(domain, "2", users, 2, method)
    random = np.random.default_rng(seed)
    truth = random.dirichlet(np.full(domain.size(), 0.7)).reshape(domain.cardinalities)
    return methods.fit(plan, honest(plan, truth, users, random))


@pytest.fixture(scope="module", params=METHODS)
def model(request: pytest.FixtureRequest) -> Model:
    return fitted(request.param)


def ask(model: Model, *names: str, group: str = "") -> GroupedTable:
    return grouped(model, DOMAIN, names, parse(group, DOMAIN))


@pytest.mark.parametrize("names", [("a0",), ("a0", "a1"), ("a1", "a2")])
def test_without_groups_it_is_the_published_table(model: Model, names: tuple[str, ...]) -> None:
    published = model.marginal(DOMAIN.index(names))
    found = ask(model, *names)
    assert found.table.ravel() == pytest.approx(published.table, abs=1e-12)
    assert found.stderr.ravel() == pytest.approx(published.stderr, rel=1e-6)
    assert found.reports == published.reports
    assert set(published.flags) <= {*found.flags, "clipped"}


def test_a_group_is_the_sum_of_its_cells(model: Model) -> None:
    cells, groups = ask(model, "a0", "a1"), ask(model, "a0", "a1", group="a1=0,2|1,3")
    expected = np.stack([cells.raw[:, [0, 2]].sum(axis=1), cells.raw[:, [1, 3]].sum(axis=1)], 1)
    assert groups.raw == pytest.approx(expected, abs=1e-6)
    assert groups.labels == (("0", "1", "2"), ("0,2", "1,3"))
    assert groups.table.sum() == pytest.approx(1.0)
    assert (groups.table >= 0).all()


def test_a_conditional_error_is_of_first_order(model: Model) -> None:
    joint = ask(model, "a0", "a2")
    found = conditional(joint, ["a2"])
    assert found.attributes == ("a2", "a0")
    assert found.table.sum(axis=1) == pytest.approx(1.0)
    assert joint.covariance is not None
    x = joint.table.ravel()

    def ratio(cells: np.ndarray) -> np.ndarray:
        table = cells.reshape(3, 2).T
        return (table / table.sum(axis=1, keepdims=True)).ravel()

    step = 1e-6
    slope = np.stack([(ratio(x + step * e) - ratio(x - step * e)) / (2 * step) for e in np.eye(6)])
    expected = np.sqrt(np.diag(slope.T @ joint.covariance @ slope))
    assert found.stderr.ravel() == pytest.approx(np.minimum(expected, 1.0), rel=1e-3)
    assert "conditional" in found.flags


def test_a_combination_without_mass_says_nothing() -> None:
    names, labels, table = ("a", "b"), (("0", "1"),) * 2, np.array([[0.0, 0.0], [0.5, 0.5]])
    errors = 0.01 * np.eye(4), np.full((2, 2), 0.1)
    joint = GroupedTable(names, labels, table, table, *errors, 10, ())
    found = conditional(joint, ["a"])
    assert found.table.tolist() == [[0.0, 0.0], [0.5, 0.5]]
    assert found.stderr[0].tolist() == [1.0, 1.0]
    assert first_groups(joint, ["a"]).covariance is None  # its shape would be that of all groups
    for given in ([], ["a", "b"], ["c"], ["a", "a"]):
        with pytest.raises(InvalidInput, match="expected some, not all"):
            conditional(joint, given)


def test_a_difference_has_both_errors(model: Model) -> None:
    one, other = ask(model, "a0"), grouped(fitted("am", seed=3), DOMAIN, ["a0"], {})
    change = difference(one, other)
    assert change.table == pytest.approx(one.raw - other.raw)
    assert change.stderr == pytest.approx(np.hypot(one.stderr, other.stderr))
    assert change.reports == one.reports + other.reports
    assert not difference(replace(one, independent=False), other).independent
    assert difference(replace(one, independent=False), replace(other, independent=True)).independent
    with pytest.raises(InvalidInput, match="same attributes and labels"):
        difference(one, ask(model, "a1"))


def test_a_table_that_no_view_covers_is_modelled() -> None:
    model = fitted("calm", mixed_domain(4, 4, 4, 4), users=60_000)
    domain = mixed_domain(4, 4, 4, 4)
    assert model.marginal((0, 1, 2, 3)).flags[0] == "maxent"
    cells = grouped(model, domain, domain.names, {})
    assert "modelled" in cells.flags
    assert "approximate" not in cells.flags
    assert "approximate" in conditional(cells, ["a0"]).flags
    groups = grouped(model, domain, domain.names, parse("a1=0,1|2,3", domain))
    assert {"modelled", "approximate"} <= set(groups.flags)
