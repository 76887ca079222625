from __future__ import annotations

from functools import reduce

import numpy as np
import pytest
from scipy import stats

from calmstream.estimators.arrays import Floats
from calmstream.estimators.changes import Source, compare
from calmstream.estimators.changes.basis import contrasts, functions, own_positions
from calmstream.estimators.changes.dependence import central, covered_rows
from calmstream.estimators.domain import Domain
from calmstream.estimators.mechanisms.registry import build
from calmstream.estimators.plan.counted import CountedView
from calmstream.estimators.view import View

N = 60_000


@pytest.mark.parametrize("shape", [(3, 2), (2, 3, 2), (2, 2, 3, 2)])
def test_central_interactions_are_expected_products(shape: tuple[int, ...]) -> None:
    table = np.random.default_rng(1).dirichlet(np.ones(int(np.prod(shape))))
    values, slope = central(contrasts(shape).T @ table, shape)
    place = np.indices(shape).reshape(len(shape), -1)
    factors = []
    for axis, labels in enumerate(shape):
        own = functions(labels)[place[axis]]
        own[:, 1:] -= table @ own[:, 1:]
        factors.append(own)
    for number, chosen in enumerate(np.ndindex(*shape)):
        if number:
            product = np.prod([f[:, k] for f, k in zip(factors, chosen, strict=True)], axis=0)
            assert values[number - 1] == pytest.approx(float(table @ product), abs=1e-12)
    theta, step = contrasts(shape).T @ table, 1e-6
    for column in range(len(theta)):
        moved = np.zeros(len(theta))
        moved[column] = step
        ends = [central(theta + sign * moved, shape)[0] for sign in (1.0, -1.0)]
        np.testing.assert_allclose((ends[0] - ends[1]) / (2 * step), slope[:, column], atol=1e-8)


def test_a_set_counts_only_with_all_its_parts() -> None:
    shape = (2, 2, 2)
    known = np.ones(7, np.bool_)
    assert len(covered_rows(known, shape)) == 4
    known[own_positions(shape, (0, 1))] = False
    assert sorted(covered_rows(known, shape)) == sorted(
        [*own_positions(shape, (0, 2)), *own_positions(shape, (1, 2))]
    )
    known[own_positions(shape, (2,))] = False
    assert not len(covered_rows(known, shape))


def window(table: Floats, generator: np.random.Generator) -> Source:
    attributes = int(np.log2(len(table)))
    mechanism = build({"name": "grr", "cells": len(table)}, "1")
    counts = mechanism.draw_tally(generator.multinomial(N, table), generator)
    view = View(tuple(range(attributes)))
    return Source(Domain.binary(attributes), (CountedView(view, mechanism, N, counts),))


def independent(*shares: float) -> Floats:
    return np.asarray(reduce(np.kron, [np.array([share, 1.0 - share]) for share in shares]))


@pytest.mark.parametrize(
    ("before", "after"), [((0.8, 0.7, 0.6), (0.9, 0.6, 0.5)), ((0.8,) * 4, (0.7,) * 4)]
)
def test_a_shift_of_margins_of_larger_tables_is_no_change_of_dependence(
    before: tuple[float, ...], after: tuple[float, ...]
) -> None:
    generator = np.random.default_rng(2)
    target = tuple(range(len(before)))
    values = []
    for _ in range(150):
        sides = (window(independent(*shares), generator) for shares in (before, after))
        table = compare(*sides, [target]).tables[0]
        assert table.p is not None
        assert table.p < 1e-4
        values.append(table.dependence)
    assert stats.kstest(values, "uniform").pvalue > 1e-6


@pytest.mark.parametrize("attributes", [3, 4])
def test_a_change_of_the_largest_interaction_alone_is_one_of_dependence(attributes: int) -> None:
    """No table of fewer attributes changes."""
    generator = np.random.default_rng(3)
    target = tuple(range(attributes))
    even = independent(*[0.5] * attributes)
    signs = np.prod(np.where(np.indices((2,) * attributes), -1.0, 1.0), axis=0).ravel()
    sides = window(even, generator), window(even * (1.0 + 0.4 * signs), generator)
    found = compare(*sides, [(0,), (0, 1), target]).tables
    assert found[2].dependence is not None
    assert found[2].dependence < 1e-6
    assert found[0].p is not None
    assert found[0].p > 1e-4
    assert found[1].p is not None
    assert found[1].p > 1e-4
