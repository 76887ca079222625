from __future__ import annotations

import numpy as np
import pytest

from calmstream.common.errors import DomainError, InvalidInput, PlanError
from calmstream.estimators import methods
from calmstream.estimators.papers.castell.design import choose_tables
from calmstream.estimators.papers.castell.product_grr import ProductGRR
from calmstream.estimators.planning import empty_tallies
from calmstream.evaluation.population import collect
from tests.support.plans import draft, mixed_domain

DOMAIN = mixed_domain(3, 4, 2, 2)
CLUSTERS = {"clusters": [["a0", "a2"]]}
PRODUCT = ["rr-joint", "rr-independent", "rr-ind-joint", "rr-hybrid", "rr-truncated"]
ALL = [*((m, {}) for m in PRODUCT), ("rr-clusters", CLUSTERS), ("rr-hybrid", {"rule": "bounds"})]
ALL += [("lopub", {})]


@pytest.mark.parametrize(("method", "parameters"), ALL)
def test_collecting_and_answering_every_published_marginal(
    method: str, parameters: dict[str, object]
) -> None:
    plan, design = draft(DOMAIN, "12", 20_000, 2, method, parameters)
    assert design.reason
    truth = np.random.default_rng(1).dirichlet(np.full(48, 0.5))
    values = np.random.default_rng(2).choice(48, 20_000, p=truth)
    codes = np.stack(np.unravel_index(values, (3, 4, 2, 2)), axis=1).astype(np.uint16)
    tallies = collect(plan, codes, np.random.SeedSequence(3), exact=False)
    model = methods.get(method).fit(plan, tallies)
    for attributes in plan.marginals:
        answer = model.marginal(attributes)
        exact = plan.domain.histogram(codes, attributes) / len(codes)
        assert answer.table.shape == exact.shape
        assert answer.reports == 20_000
        if "maxent" not in answer.flags:
            assert (np.abs(answer.table - exact) < 6 * answer.stderr + 1e-9).all(), attributes


def test_tables_are_the_joint_or_all_of_one_size_whichever_are_smaller() -> None:
    assert choose_tables(mixed_domain(2, 2, 2), 2, {})[0] == ((0, 1, 2),)
    large = mixed_domain(*(16,) * 6)
    assert len(choose_tables(large, 2, {})[0]) == 15
    assert len(choose_tables(large, 1, {})[0]) == 15  # pairs are published by default
    assert choose_tables(large, 6, {})[0] == ((0, 1, 2, 3, 4, 5),)
    chosen = choose_tables(large, 5, {"tables": [["a5", "a0", "a1"]]})[0]
    assert chosen[0] == (0, 1, 5)
    assert len(chosen) == 1 + 15 - 3
    with pytest.raises(PlanError, match="name the ones to keep"):
        choose_tables(mixed_domain(*(4,) * 40), 6, {})


def test_a_record_spends_all_of_epsilon_and_no_more() -> None:
    for method, parameters in ALL[:-1]:
        mechanism = draft(DOMAIN, "4", 1000, 2, method, parameters)[0].mechanisms[0]
        assert isinstance(mechanism, ProductGRR)
        realised = sum(np.log(w / 2**32) for w in mechanism.weights)
        assert 4 - 1e-8 < realised <= 4 + 1e-12, method


def test_larger_marginals_need_their_table_unless_they_are_products() -> None:
    triple = (0, 1, 2)
    domain = mixed_domain(8, 8, 8, 8, 8)
    for method, parameters in ALL:
        plan, _ = draft(domain, "8", 1000, 2, method, parameters)
        model = methods.get(method).fit(plan, empty_tallies(plan))
        if method in ("rr-independent", "rr-clusters"):
            assert model.marginal(triple).flags == ("uniform",)
        else:
            with pytest.raises(InvalidInput, match="counts no table"):
                model.marginal(triple)
    plan, _ = draft(domain, "8", 1000, 2, "rr-hybrid", {"tables": [list(triple)]})
    model = methods.get("rr-hybrid").fit(plan, empty_tallies(plan))
    assert model.marginal(triple).flags == ("uniform",)


@pytest.mark.parametrize(
    ("method", "parameters", "message"),
    [
        ("rr-clusters", {}, "needs the parameter clusters"),
        ("rr-clusters", {"clusters": [["a0", "a9"]]}, "no attribute 'a9'"),
        ("rr-clusters", {"clusters": [[0, 1], [1, 2]]}, "two clusters"),
        ("rr-clusters", {"clusters": [[0, 7]]}, "does not exist"),
        ("rr-clusters", {"clusters": 3}, "list of lists"),
        ("rr-joint", {"tables": [[]]}, "none of them empty"),
        ("rr-joint", {"colour": 1}, "not the parameter 'colour'"),
        ("rr-independent", {"tables": [[0]]}, "not the parameter 'tables'"),
    ],
)
def test_refusals(method: str, parameters: dict[str, object], message: str) -> None:
    with pytest.raises((PlanError, DomainError), match=message):
        draft(DOMAIN, "1", 1000, 2, method, parameters)
