"""Check the errors that papers publish and theory predicts, on real data, before any clipping.

All seeds were fixed before the first run. Tallies are drawn from their exact distribution.
"""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np
import pytest

from calmstream.estimators import methods
from calmstream.estimators.domain import Domain
from calmstream.estimators.marginal import sse
from calmstream.estimators.methods.base import LinearAnswers
from calmstream.estimators.plan import Plan
from calmstream.evaluation.population import collect
from tests.support.plans import draft, mixed_domain

N = 1 << 18

"""Theory with the coefficients of taxi8, e^epsilon = 3."""


def model_of(plan: Plan, codes: np.ndarray, seed: tuple[int, ...]) -> LinearAnswers:
    tallies = collect(plan, codes, np.random.SeedSequence(seed), exact=True)
    model = methods.get(plan.method).fit(plan, tallies)
    assert isinstance(model, LinearAnswers)
    return model


def noise(plan: Plan, codes: np.ndarray, runs: int, seed: int, size: int) -> float:
    """Return the mean SSE of all marginals of one size over many collections."""
    domain = plan.domain
    targets = list(combinations(range(len(domain)), size))
    truths = [domain.histogram(codes, t) / len(codes) for t in targets]
    total = 0.0
    for run in range(runs):
        model = model_of(plan, codes, (seed, run))
        total += sum(sse(model.unclipped(t), f) for t, f in zip(targets, truths, strict=True))
    return total / (runs * len(targets))


def stated(plan: Plan, size: int) -> float:
    """Return n times the stated squared error of tables of a size, on records of all values."""
    shape = plan.domain.cardinalities
    every = np.indices(shape).reshape(len(shape), -1).T.astype(np.uint16)
    codes = np.tile(every, (-(-N // len(every)), 1))
    model = model_of(plan, codes, (4,))
    tables = [model.marginal(a) for a in combinations(range(len(shape)), size)]
    return len(codes) * float(np.mean([np.square(table.stderr).sum() for table in tables]))


TERNARY = {
    "0.2": {"characters": 5.87e4, "ft": 6.2e5, "inp-ht": 7.5e4, "am": 1.5e5},
    "1": {"characters": 2.09e3, "ft": 2.9e4, "inp-ht": 3.5e3, "am": 5.7e3},
}
"""n · SSE of a 3-way table of 8 attributes with 3 values; am is OUE at this size."""


def ternary(n: int) -> np.ndarray:
    """Return dependent attributes with three values; each mostly equals the one before it."""
    generator = np.random.default_rng(61)
    first = generator.choice(3, n, p=[0.5, 0.3, 0.2])
    codes = [first]
    for _ in range(7):
        moves = generator.choice(3, n, p=[0.6, 0.25, 0.15])
        codes.append((codes[-1] + moves) % 3)
    return np.stack(codes, axis=1).astype(np.uint16)


@pytest.mark.parametrize("epsilon", ["0.2", pytest.param("1", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "method",
    [
        "characters",
        *(pytest.param(m, marks=pytest.mark.slow) for m in ("ft", "inp-ht")),
        "am",
    ],
)
def test_categorical_methods_have_the_predicted_errors(epsilon: str, method: str) -> None:
    n = N
    domain = mixed_domain(*[3] * 8)
    codes = ternary(n)
    plan, _ = draft(domain, epsilon, n, 3, method)
    if method == "am":
        assert {m.name for m in plan.mechanisms} == {"oue"}
    tolerance = 0.1
    runs = {"characters": 12, "ft": 2, "inp-ht": 6, "am": 6}[method]
    scaled_noise = n * noise(plan, codes, runs, 62, 3)
    assert scaled_noise == pytest.approx(TERNARY[epsilon][method], rel=tolerance)


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
