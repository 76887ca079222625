from __future__ import annotations

import pytest

from calmstream.common.errors import PlanError
from calmstream.estimators.view import Kind, View
from tests.support.plans import mixed_domain

DOMAIN = mixed_domain(2, 4, 3, 6)


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
