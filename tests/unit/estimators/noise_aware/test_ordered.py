from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from calmstream.estimators.domain import Attribute, Domain
from calmstream.estimators.kinds import Number, Ordered
from calmstream.estimators.noise_aware.model import NoiseAwareModel
from calmstream.estimators.noise_aware.ordered import label_places, levels_of
from calmstream.estimators.plan.pilots import PooledPilots
from tests.support.noise_aware import domain_of, plan_for, tallies_of, truth


def number(edges: Sequence[str], *, other: bool = False, **fields: bool) -> Attribute:
    kind = Number(tuple(edges), **fields)
    labels = (*kind.labels, "unknown") if other else kind.labels
    return Attribute("x", labels, len(labels) - 1 if other else None, kind)


def test_equal_and_geometric_widths_need_no_offset() -> None:
    for edges in ([str(i) for i in range(11)], [str(2**i) for i in range(11)]):
        levels = levels_of(number(edges))
        assert levels is not None
        np.testing.assert_allclose(levels.offset, 0.0, atol=1e-9)
        assert levels.count == len(edges) - 1
        assert not levels.lone.any()


def test_wider_bins_have_more_mass() -> None:
    levels = levels_of(number(["0", "1", "2", "4", "5", "6", "7", "8", "9"]))
    assert levels is not None
    assert int(levels.offset.argmax()) == 2
    assert levels.offset[2] - levels.offset[1] == pytest.approx(np.log(2.0), abs=0.15)


def test_open_bins_the_bin_of_zero_and_the_label_other_stand_alone() -> None:
    edges = ["0", "0.01", *(str(100 * i) for i in range(1, 12))]
    levels = levels_of(number(edges, other=True, above=True))
    assert levels is not None
    assert np.flatnonzero(levels.lone).tolist() == [0, 12, 13]
    assert levels.count == 13
    assert levels.offset[[0, 12, 13]].tolist() == [0.0, 0.0, 0.0]


def test_categories_bits_and_attributes_of_many_labels_have_no_order() -> None:
    assert levels_of(Attribute("x", ("a", "b", "c"))) is None
    assert levels_of(Attribute("x", ("a", "b"), None, Ordered())) is None
    assert levels_of(Attribute("x", ("a", "b", "c"), None, Ordered())) is not None
    assert levels_of(number([str(i) for i in range(300)])) is None


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["1", "2", "3"], [0, 1, 2]),
        (["10", "9", "-1", "0.5"], [3, 2, 0, 1]),
        (["1e3", "2e3", "5"], [1, 2, 0]),
        (["18-24", "25-34", "35-44", "65+", "(missing)"], [0, 1, 2, 3, None]),
        (["10..19", "0..9", "20..99"], [1, 0, 2]),
        (["-3..-1", "0", "1..2"], [0, 1, 2]),
        (["< 1 year", "1 year", "2 years", "10+ years"], [0, 1, 2, 3]),
        (["$1,000-$2,000", "under $1,000", "over $2,000"], [1, 0, 2]),
        (["[0, 5)", "[5, 10)", "[10, 20)"], [0, 1, 2]),
        (["50 or more", "20-49", "0 to 19"], [2, 1, 0]),
        (["0", "1 or 2", "3 or 4"], [0, 1, 2]),
        (["<=10", "10", ">10"], [0, 1, 2]),
        (["10%", "30 %", "20%"], [0, 2, 1]),
        (["1,", "3,", "2,"], [0, 2, 1]),
    ],
)
def test_labels_have_the_order_of_their_numbers(
    labels: list[str], expected: list[int | None]
) -> None:
    found = label_places(labels)
    assert found is not None
    wanted = [np.nan if place is None else float(place) for place in expected]
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    "labels",
    [
        ["a", "b", "c"],
        ["1", "2", "3", "x", "y"],  # too few numbers
        ["1", "1.0", "2"],  # two with the same number
        ["1 child", "2 dogs", "3 cats"],
        ["01-sales", "02-service", "03-other"],
        ["v1", "v2", "v3"],
        ["nan", "inf", "1"],
        ["", " ", "1"],
    ],
)
def test_other_labels_have_none(labels: list[str]) -> None:
    assert label_places(labels) is None


def test_levels_come_first_in_their_order_then_other_labels() -> None:
    levels = levels_of(Attribute("x", ("10", "missing", "9", "11")))
    assert levels is not None
    assert levels.codes.tolist() == [2, 0, 3, 1]
    assert levels.lone.tolist() == [False, False, False, True]
    assert levels.count == 3


def test_an_order_lowers_the_error_of_pairs() -> None:
    """Of bell-shaped margins that share a weak cause."""
    random, n, cards = np.random.default_rng(3), 40_000, (24, 12, 2)
    common = 0.3 * random.normal(size=n)
    columns = [np.clip((common + random.normal(size=n) + 2.5) / 5.0 * r, 0, r - 1) for r in cards]
    codes, domain = np.stack(columns, axis=1).astype(np.uint16), domain_of(*cards)
    plan = plan_for(domain, "1", n, 2)
    tallies = tallies_of(plan, codes, 4)
    ordered = Domain(
        tuple(replace(a, kind=Ordered() if a.cardinality > 2 else None) for a in domain.attributes)
    )
    pooled = PooledPilots(ordered, 2, plan.groups)
    plain, smooth = NoiseAwareModel(plan, tallies), NoiseAwareModel(pooled, tallies)
    for attributes in ((0, 1), (0, 2), (1, 2)):
        true = truth(domain, codes, attributes)
        before, after = (
            np.square(model.marginal(attributes).table - true).sum() for model in (plain, smooth)
        )
        assert after < 0.9 * before, attributes
