from __future__ import annotations

from math import comb

import numpy as np
import pytest

from calmstream.common.errors import PlanError
from calmstream.estimators.domain import Domain
from calmstream.estimators.papers.cormode.characters import generators, vectors
from calmstream.estimators.plan.document import read_plan
from tests.support.plans import draft, mixed_domain

NAMES = (
    "fc", "inp-rr", "inp-ps", "inp-olh", "inp-htcms", "inp-em",
    "am", "marg-rr", "marg-ps", "marg-ht", "ft", "inp-ht", "characters",
)  # fmt: skip


def views_of(method: str, domain: Domain, k: int) -> int:
    plan, _ = draft(domain, "1", 10_000, k, method)
    return sum(len(group.views) for group in plan.groups)


@pytest.mark.parametrize("method", NAMES)
def test_a_plan_states_its_size(method: str) -> None:
    _, design = draft(mixed_domain(2, 3, 3, 2), "1", 10_000, 2, method)
    assert any("statistic: " in line and "counters" in line for line in design.reason)


@pytest.mark.parametrize(("method", "size"), [("inp-rr", 16), ("marg-rr", 4)])
def test_bits_of_cells_have_either_oracle(method: str, size: int) -> None:
    """Check the oracles of the paper by one cell's leading variance at epsilon ln 3."""
    for name, leading in (("sue", 3.23), ("oue", 3.00)):
        plan, _ = draft(Domain.binary(4), "1.0986122886681098", 1000, 2, method, {"oracle": name})
        mechanism = plan.mechanisms[0]
        assert (mechanism.name, mechanism.cells) == (name, size)
        variance = float(mechanism.variance(1, np.zeros(size))[0])
        assert variance == pytest.approx(leading, abs=5e-3)
    with pytest.raises(PlanError, match="oracle must be one of sue, oue, got 'grr'"):
        draft(Domain.binary(4), "1", 1000, 2, method, {"oracle": "grr"})


def test_the_seed_of_a_sketch_chooses_its_hashes() -> None:
    plans = [draft(Domain.binary(4), "1", 9, 2, "inp-htcms", {"seed": s})[0] for s in (0, 7)]
    places = [plan.mechanisms[0].places.tolist() for plan in plans]
    assert places[0] != places[1]
    assert plans[0].groups == draft(Domain.binary(4), "1", 9, 2, "inp-htcms")[0].groups
    assert read_plan(plans[1].to_bytes()) == plans[1]
    with pytest.raises(PlanError, match="seed"):
        draft(Domain.binary(4), "1", 9, 2, "inp-htcms", {"seed": -1})


@pytest.mark.parametrize(
    ("method", "d", "k", "size"),
    [
        ("fc", 32, 3, "4,294,967,296 cells"),
        ("inp-rr", 17, 3, "131,072 cells"),
        ("inp-ps", 21, 3, "2,097,152 cells"),
        ("am", 32, 6, "906,192 tables"),
        ("ft", 32, 6, "1,149,016 coefficients"),
        ("characters", 32, 6, "1,149,016 coefficients"),
        ("marg-ht", 16, 6, "504,504 pairs"),
    ],
)
def test_absurd_sizes_are_refused_with_the_size(method: str, d: int, k: int, size: str) -> None:
    with pytest.raises(PlanError) as refusal:
        draft(Domain.binary(d), "1", 10_000, k, method)
    assert size in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("method", NAMES)
def test_unknown_parameters_are_refused(method: str) -> None:
    with pytest.raises(PlanError, match=f"method {method} has"):
        draft(Domain.binary(3), method=method, parameters={"colour": 1})


def test_a_bad_parameter_value_is_refused() -> None:
    with pytest.raises(PlanError, match="parameter stop must be"):
        draft(Domain.binary(3), method="inp-em", parameters={"stop": "never"})


def test_numbers_of_views() -> None:
    """92 coefficients at d = 8, k = 3; 1788, not 14892, at three values."""
    eight, ternary = Domain.binary(8), mixed_domain(*[3] * 8)
    assert views_of("ft", eight, 3) == views_of("inp-ht", eight, 3) == 92
    assert views_of("characters", eight, 3) == 92
    assert views_of("am", eight, 3) == comb(8, 3)
    assert views_of("marg-ht", eight, 3) == 56 * 7
    assert views_of("ft", ternary, 3) == 14_892
    assert views_of("inp-ht", ternary, 3) == 1788
    assert views_of("characters", ternary, 3) == (16 + 28 * 4 + 56 * 8) // 2


@pytest.mark.parametrize("cardinalities", [(3, 3, 3), (4, 4), (2, 3, 6), (2, 4, 4), (5, 5)])
def test_generators_reach_every_coefficient_and_none_is_idle(
    cardinalities: tuple[int, ...],
) -> None:
    from calmstream.estimators.papers.cormode.coefficients import harmonics

    domain = mixed_domain(*cardinalities)
    wanted = {(v.attributes, v.factors) for v in vectors(domain, 2)}
    chosen = generators(domain, 2)
    reached = [{key for _, key in harmonics(view, domain)} for view in chosen]
    assert set().union(*reached) == wanted
    for number, own in enumerate(reached):
        others = set().union(*(r for i, r in enumerate(reached) if i != number))
        assert own - others


def test_unequal_cardinalities_fall_back_to_bits_when_the_group_would_be_large() -> None:
    small, _ = draft(mixed_domain(2, 3, 4), "1", 10_000, 2, "characters")
    assert {view.kind for g in small.groups for view in g.views} == {"character"}
    large, design = draft(mixed_domain(3, 5, 7), "1", 10_000, 2, "characters")
    assert {view.kind for g in large.groups for view in g.views} == {"parity"}
    assert "least common multiple 105" in design.reason[0]
