"""Check which labels have the order of their numbers, and that the order is that of the numbers."""

from __future__ import annotations

import numpy as np
import pytest

from calmstream.estimators.domain import Attribute
from calmstream.estimators.noise_aware.ordered import label_places, levels_of


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
    assert (levels.count, levels.stated) == (3, False)
