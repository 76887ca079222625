"""Errors that papers publish and theory predicts, before any clipping; fixed seeds."""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np
import pytest

from calmstream.estimators import methods
from calmstream.estimators.domain import Domain
from calmstream.estimators.methods.base import LinearAnswers
from calmstream.estimators.plan import Plan
from calmstream.evaluation.population import collect
from tests.support.plans import draft

N = 1 << 18


def stated(plan: Plan, size: int) -> float:
    """Return n times the stated squared error of tables of a size, on records of all values."""
    shape = plan.domain.cardinalities
    every = np.indices(shape).reshape(len(shape), -1).T.astype(np.uint16)
    codes = np.tile(every, (-(-N // len(every)), 1))
    model = methods.fit(plan, collect(plan, codes, np.random.SeedSequence((4,)), exact=True))
    assert isinstance(model, LinearAnswers)
    tables = [model.marginal(a) for a in combinations(range(len(shape)), size)]
    return len(codes) * float(np.mean([np.square(table.stderr).sum() for table in tables]))


@pytest.mark.parametrize(
    ("method", "size"), [("inp-ht", 3), ("inp-ht", 2), ("marg-ht", 3), ("marg-ht", 1)]
)
def test_exact_formulas_of_binary_coefficients(method: str, size: int) -> None:
    """Check T (1 - 2^-s) c2 for InpHT, and C(d, k) (2^k - 1)^2 / 2^k c2 for MargHT."""
    d, k, n = 6, 3, 10**7
    plan, _ = draft(Domain.binary(d), "0.7", n, k, method)
    p = float(plan.mechanisms[0].channel()[0][0])
    c2 = 1 / (2 * p - 1) ** 2
    coefficients = {
        "inp-ht": sum(comb(d, s) for s in range(1, k + 1)),
        "marg-ht": comb(d, k) * (2**k - 1) / comb(d - size, k - size),
    }[method]
    assert stated(plan, size) == pytest.approx(coefficients * (1 - 2.0**-size) * c2, rel=0.01)
