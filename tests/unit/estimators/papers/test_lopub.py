from __future__ import annotations

from fractions import Fraction
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from calmstream.common.errors import InvalidInput, PlanError
from calmstream.estimators import methods
from calmstream.estimators.methods.base import Model
from calmstream.estimators.papers.lopub import bloom_filters
from calmstream.estimators.papers.lopub.bloom_counts import add_products
from calmstream.estimators.papers.lopub.bloom_filters import Facts, facts, filter_rows
from calmstream.estimators.papers.lopub.bloom_rr import BloomRR
from calmstream.estimators.papers.lopub.lasso import nonnegative_lasso
from calmstream.estimators.planning import empty_tallies
from calmstream.estimators.randomness import SeededRandomness
from calmstream.estimators.tally import Tally
from tests.support.mechanisms import below_exp, worst_ratio
from tests.support.plans import draft, mixed_domain


def small(epsilon: str = "6") -> BloomRR:
    return BloomRR(epsilon, 24, (3, 4, 2), 64, 5, ((0, 1, 2),))


@pytest.mark.parametrize("epsilon", ["0.5", "8", "32"])
def test_the_total_loss_is_the_plan_s_in_rationals(epsilon: str) -> None:
    m = small(epsilon)
    worst = 0
    for i, filters in enumerate(m.filters):
        far = max(int((a != b).sum()) for a in filters for b in filters)
        assert far <= 10, i
        worst += far
    assert worst == m.distance
    ratio = (1 - m.q) / m.q
    assert worst_ratio(m) == ratio**worst <= below_exp(Fraction(epsilon))
    assert worst_ratio(m) > below_exp(Fraction(epsilon)) * (1 - Fraction(worst, 1 << 31))


def test_the_lasso_is_the_minimiser() -> None:
    rng = np.random.default_rng(3)
    designs = [rng.random((9, 3)), rng.random((7, 4))]
    grams = [d.T @ d for d in designs]
    whole = np.kron(*designs)
    target = rng.normal(size=63)
    scores = (whole.T @ target).reshape(3, 4)
    for penalty in (0.0, 0.1, 1.0):
        b = nonnegative_lasso(scores, grams, penalty).reshape(-1)
        slope = whole.T @ (whole @ b - target) + penalty
        assert (b >= 0).all()
        assert slope[b > 1e-9] == pytest.approx(0.0, abs=1e-4)
        assert (slope[b <= 1e-9] > -1e-4).all()
    allowed = np.zeros((3, 4), bool)
    allowed[1, 2] = True
    assert not nonnegative_lasso(scores, grams, 0.0, allowed)[~allowed].any()
    assert not nonnegative_lasso(scores, grams, 1e6).any()


def collected(epsilon: str, n: int, k: int) -> tuple[Model, np.ndarray]:
    plan, _ = draft(mixed_domain(3, 4, 2), epsilon, n, k, "lopub")
    m = plan.mechanisms[0]
    truth = np.random.default_rng(5).dirichlet(np.full(24, 0.3))
    values = np.random.default_rng(6).choice(24, n, p=truth)
    reports = m.perturb(values, SeededRandomness(7))
    model = methods.fit(plan, [Tally(np.array([n]), m.tally(reports, None, 1))])
    return model, np.bincount(values, minlength=24).reshape(3, 4, 2) / n


@pytest.mark.parametrize("attributes", [(0,), (1,), (0, 1), (1, 2), (0, 1, 2)])
def test_marginals_are_distributions_within_their_errors(attributes: tuple[int, ...]) -> None:
    model, exact = collected("24", 20_000, 3)
    answer = model.marginal(attributes)
    table = exact.sum(axis=tuple(i for i in range(3) if i not in attributes)).reshape(-1)
    assert answer.table.sum() == pytest.approx(1.0)
    assert (answer.table >= 0).all()
    assert (np.abs(answer.table - table) < 5 * answer.stderr).all()
    assert answer.reports == 20_000
    assert "covered" in answer.flags


def test_the_plan_states_what_does_not_stream() -> None:
    plan, design = draft(mixed_domain(5, 4, 6), "8", 1000, 2, "lopub")
    assert any("evaluation only" in line for line in design.reason)
    assert plan.mechanisms[0].width == sum(
        prod(r + 1 for r in pair) for pair in ((5, 4), (5, 6), (4, 6))
    )
    model = methods.get("lopub").fit(plan, empty_tallies(plan))
    assert model.marginal((0, 2)).flags == ("uniform",)
    with pytest.raises(InvalidInput, match="counts no table"):
        model.marginal((0, 1, 2))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"bits": 1}, "between 2"),
        ({"hashes": 99}, "between 1"),
        ({"bits": 4, "hashes": 4}, "same filter"),
        ({"colour": 1}, "not the parameter 'colour'"),
        ({"tables": [["a0", "zz"]]}, "no attribute 'zz'"),
    ],
)
def test_refusals(parameters: dict[str, object], message: str) -> None:
    with pytest.raises((PlanError, InvalidInput), match=message):
        draft(mixed_domain(16, 4), "1", 1000, 2, "lopub", parameters)


@pytest.mark.parametrize("attributes", [(0,), (2,), (0, 1), (1, 2), (0, 1, 2)])
def test_the_noise_is_that_of_the_exact_covariance_of_every_table(
    attributes: tuple[int, ...],
) -> None:
    m = small()
    table = np.random.default_rng(4).dirichlet(np.ones(prod(m.axes[i] for i in attributes)))
    exact = np.diag(m.table_covariance(480, table, m.axes, attributes))
    stated = m.noise(table.reshape([m.axes[i] for i in attributes]), attributes, 480)
    assert stated.ravel() == pytest.approx(exact - table * (1 - table) / 480, rel=1e-9)


def reference(ones: list[NDArray[np.float32]], table: tuple[int, ...]) -> NDArray[np.int64]:
    total: NDArray[np.float64] = np.ones((1, ones[0].shape[1]))
    for axis in table:
        total = (total[:, None] * ones[axis].astype(float)).reshape(-1, total.shape[1])
    return total.sum(axis=1).astype(np.int64)


@pytest.mark.parametrize(
    "tables",
    [
        ((0,), (1,), (2,)),
        ((0, 1), (0, 2), (1, 2)),
        ((1, 2), (0,), (0, 1, 2), (0, 2)),
        ((0, 3), (1, 3)),
        ((0, 1, 2, 3),),
        ((2,), (0, 1)),
    ],
)
def test_counters_are_the_sums_of_products(tables: tuple[tuple[int, ...], ...]) -> None:
    generator = np.random.default_rng(1)
    n = 70_001  # more than one block
    ones = [generator.integers(0, 17, (rows + 1, n)).astype(np.float32) for rows in (2, 3, 2, 9)]
    for axis in ones:
        axis[0] = 1
    expected = np.concatenate([reference(ones, table) for table in tables])
    assert np.array_equal(add_products(ones, tables), expected)


def by_all_pairs(axis: int, cardinality: int, bits: int, hashes: int) -> Facts | None:
    """Return the result of comparing all pairs of filters; None if two filters are equal."""
    rows = filter_rows(axis, np.arange(cardinality), bits, hashes).astype(int)
    apart = np.abs(rows[:, None, :] - rows[None, :, :]).sum(axis=2)
    if apart[~np.eye(cardinality, dtype=bool)].min() == 0:
        return None
    return Facts(int(apart.max()), int(rows.sum(axis=1).max()))


@given(
    axis=st.integers(0, 60),
    cardinality=st.integers(2, 60),
    bits=st.integers(2, 140),
    hashes=st.integers(1, 16),
)
@settings(max_examples=300, deadline=None)
def test_the_facts_are_those_of_all_pairs(
    axis: int, cardinality: int, bits: int, hashes: int
) -> None:
    expected = by_all_pairs(axis, cardinality, bits, hashes)
    if expected is None:
        with pytest.raises(PlanError, match="same filter"):
            facts(axis, cardinality, bits, hashes)
    else:
        assert facts(axis, cardinality, bits, hashes) == expected


@pytest.mark.parametrize("bits", [26, 30, 60, 130])
def test_blocks_change_nothing(bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = by_all_pairs(1, 150, bits, 12)
    monkeypatch.setattr(bloom_filters, "_VALUES", 7)
    monkeypatch.setattr(bloom_filters, "_ROWS", 5)
    assert facts.__wrapped__(1, 150, bits, 12) == expected
