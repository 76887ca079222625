"""Check views, the attribute sets that a device reports on, as functions of a record."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from calmstream.common.errors import PlanError
from calmstream.estimators.view import Kind, View
from tests.support.plans import mixed_domain

DOMAIN = mixed_domain(2, 4, 3, 6)
CODES = np.array(list(product(range(2), range(4), range(3), range(6))), np.uint16)


def test_a_cell_view_is_the_table_cell() -> None:
    view = View((1, 3))
    assert view.cells(DOMAIN) == 24
    np.testing.assert_array_equal(view.inputs(CODES, DOMAIN), DOMAIN.cells(CODES, (1, 3)))


def test_a_parity_view_is_the_product_of_bit_signs() -> None:
    view = View((0, 1, 3), "parity", (1, 3, 5))
    assert view.cells(DOMAIN) == 2
    expected = [
        ((x0 & 1) + (x1 & 3).bit_count() + (x3 & 5).bit_count()) % 2
        for x0, x1, _, x3 in CODES.tolist()
    ]
    np.testing.assert_array_equal(view.inputs(CODES, DOMAIN), expected)


def test_a_character_view_adds_in_the_common_modulus() -> None:
    view = View((0, 2, 3), "character", (1, 2, 5), 6)
    assert view.cells(DOMAIN) == 6
    expected = [(3 * x0 + 2 * 2 * x2 + 5 * x3) % 6 for x0, _, x2, x3 in CODES.tolist()]
    np.testing.assert_array_equal(view.inputs(CODES, DOMAIN), expected)


@pytest.mark.parametrize(
    ("attributes", "kind", "factors", "modulus", "message"),
    [
        ((), "cell", (), 0, "ascend"),
        ((1, 0), "cell", (), 0, "ascend"),
        ((0,), "cell", (1,), 0, "no factors"),
        ((0,), "cell", (), 2, "no modulus"),
        ((0, 1), "parity", (1,), 0, "one positive factor"),
        ((0,), "parity", (1,), 2, "needs a modulus of at least 2"),
        ((0,), "character", (1,), 1, "needs a modulus of at least 2"),
    ],
)
def test_malformed_views(
    attributes: tuple[int, ...], kind: Kind, factors: tuple[int, ...], modulus: int, message: str
) -> None:
    with pytest.raises(PlanError, match=message):
        View(attributes, kind, factors, modulus)


@pytest.mark.parametrize(
    ("view", "message"),
    [
        (View((2, 4)), "the domain does not have"),
        (View((2,), "parity", (4,)), "a bit attribute 2 does not have"),
        (View((1,), "character", (1,), 6), "does not fit attribute 1"),
    ],
)
def test_views_that_do_not_fit_the_domain(view: View, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        view.check(DOMAIN)
