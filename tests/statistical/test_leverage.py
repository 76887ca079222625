"""Check how much forged reports can change an answer.

The computed bound is compared with all possible reports and with new fits.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest

from calmstream.estimators import methods
from calmstream.estimators.analysis.leverage import FORGED_SHARE, leverages
from calmstream.estimators.mechanisms.base import Mechanism
from calmstream.estimators.mechanisms.registry import names, standard
from calmstream.estimators.methods.base import LinearAnswers, Model
from calmstream.estimators.plan import Plan
from calmstream.estimators.tally import Tally
from tests.support.plans import draft, mixed_domain

ONE_SIGN = "hadamard-coefficient"
EXACT = ("grr", "oue", "sue", "subset-selection", ONE_SIGN)
BOUNDED = ("olh", "hadamard-response")


def reports_of(mechanism: Mechanism) -> list[dict[str, Any]]:
    """Return every report that can be sent, in the order of the mechanism's channel."""
    columns = mechanism.columns
    if columns[0].kind == "bits":
        sets = [bits[::-1] for bits in product((0, 1), repeat=mechanism.cells)]
        if mechanism.name == "subset-selection":
            sets = [s for s in sets if sum(s) == mechanism.size]  # type: ignore[attr-defined]
        packed = np.packbits(np.array(sets, np.uint8), axis=1, bitorder="little")
        return [{columns[0].name: row[None]} for row in packed]
    ranges = [range(min(column.bound, 64)) for column in columns]
    return [
        {c.name: np.array([v]) for c, v in zip(columns, values, strict=True)}
        for values in product(*ranges)
    ]


def contributions(mechanism: Mechanism) -> np.ndarray:
    """Return what each report adds to each cell's estimate, times n: shape (reports, cells)."""
    rows = [mechanism.tally(r, None, 1)[0] for r in reports_of(mechanism)]
    return np.array([mechanism.estimate(row, 1) for row in rows])


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        *((name, c) for name in (*EXACT, *BOUNDED) for c in (2, 3, 5, 8) if name != ONE_SIGN),
        (ONE_SIGN, 2),
    ],
)
@pytest.mark.parametrize("epsilon", ["0.2", "1", "3"])
def test_the_influence_is_that_of_the_worst_report(name: str, cells: int, epsilon: str) -> None:
    mechanism = standard(name, epsilon, cells)
    table = contributions(mechanism)
    random = np.random.default_rng(cells)
    for _ in range(20):
        weights = random.normal(size=cells)
        worst = float((table @ weights).max())
        stated = mechanism.influence(weights, np.ones(cells))
        if name in EXACT:
            assert stated == pytest.approx(worst, abs=1e-9)
        else:
            assert stated >= worst - 1e-9
        twice = mechanism.influence(np.concatenate([weights, [0.0]]), np.array([1.0] * cells + [0]))
        assert twice == pytest.approx(stated)


def test_cells_that_are_weighted_alike_are_counted_together() -> None:
    for name in ("grr", "oue", "subset-selection"):
        mechanism = standard(name, "1", 9)
        each = np.array([2.0] * 4 + [-1.0] * 5)
        together = mechanism.influence(np.array([2.0, -1.0]), np.array([4.0, 5.0]))
        assert together == pytest.approx(mechanism.influence(each, np.ones(9)))


def test_every_mechanism_states_its_influence() -> None:
    for name in names():
        mechanism = standard(name, "1", 2 if name == "hadamard-coefficient" else 4)
        assert mechanism.influence(np.array([1.0, 0.0]), np.array([1.0, 3.0])) > 0


def test_one_report_changes_a_cell_as_much_as_documented() -> None:
    """Check GRR of 4, 16 and 64 cells and OUE at epsilon 1 and 0.2, in units of 1 / n."""
    one = np.array([1.0, 0.0])

    def moves(name: str, epsilon: str, cells: int) -> float:
        times = np.array([1.0, cells - 1.0])
        return standard(name, epsilon, cells).influence(one, times)

    assert [round(moves("grr", "1", c), 1) for c in (4, 16, 64)] == [2.7, 9.7, 37.7]
    assert [round(moves("grr", "0.2", c), 1) for c in (4, 16, 64)] == [14.5, 68.7, 285.5]
    assert round(moves("oue", "1", 64), 1) == 3.2
    assert round(moves("oue", "0.2", 64), 1) == 11.0


# Refits: the forged share of the worst view is replaced by the worst reports.


def honest(plan: Plan, record: Sequence[int]) -> list[np.ndarray]:
    """Return the expected counters per view and report, of a population that holds one record."""
    tallies = []
    for group, mechanism in zip(plan.groups, plan.mechanisms, strict=True):
        for view in group.views:
            own = int(view.inputs(np.array([record], np.uint16), plan.domain)[0])
            tallies.append(expected(mechanism, own))
    return tallies


@cache
def expected(mechanism: Mechanism, own: int) -> np.ndarray:
    """Return the mean counters of one honest report, from the exact channel."""
    chances = np.array(mechanism.channel()[own], np.float64)
    return chances @ np.array(worst_reports(mechanism))


def linear_answers(plan: Plan, counters: list[np.ndarray], n: np.ndarray) -> list[np.ndarray]:
    """Fit once, and return the table of each of the plan's marginals before any clipping."""
    tallies, at = [], 0
    for group in plan.groups:
        size = len(group.views)
        rows = np.stack([c * k for c, k in zip(counters[at : at + size], n[at:], strict=False)])
        tallies.append(Tally(n[at : at + size], rows))
        at += size
    model = methods.get(plan.method).fit(plan, tallies)
    if plan.method.startswith("rr-"):  # these publish raw tables
        return [model.marginal(a).table for a in plan.marginals]
    assert isinstance(model, LinearAnswers)
    return [model.unclipped(a) for a in plan.marginals]


@pytest.mark.parametrize(
    ("method", "cardinalities"),
    [
        ("am", (2, 3, 2)),
        ("marg-ps", (2, 3, 2)),
        ("marg-rr", (2, 3, 2)),
        ("fc", (2, 3)),
        ("inp-rr", (2, 3)),
        ("inp-ps", (2, 3, 2)),
        ("calm", (2, 2, 2)),
        pytest.param("calm", (2, 3, 2), marks=pytest.mark.slow),
        ("inp-ht", (2, 2, 2)),
        ("inp-ht", (2, 3)),
        ("marg-ht", (2, 2, 2)),
        ("characters", (3, 3)),
        ("rr-ind-joint", (2, 3)),
        ("rr-joint", (2, 3)),
    ],
)
def test_the_reach_is_what_a_refit_with_the_worst_reports_shows(
    method: str, cardinalities: tuple[int, ...]
) -> None:
    """Put all forged reports into one view: every view, every cell, and the worst report."""
    domain = mixed_domain(*cardinalities)
    plan, _ = draft(domain, "1", 10_000, 2, method, marginals=((0, 1), (1,)))
    share = np.array([s for g in plan.groups for s in g.shares], np.float64)
    share /= share.sum()
    total = 1 << 40
    mechanisms = [m for g, m in zip(plan.groups, plan.mechanisms, strict=True) for _ in g.views]
    worst = [worst_reports(m) for m in mechanisms]
    n = np.rint(share * total).astype(np.int64)
    largest_moves = [0.0 for _ in plan.marginals]
    for record in product(*(range(r) for r in domain.cardinalities)):
        own = honest(plan, record)
        before = linear_answers(plan, own, n)
        for view, choices in enumerate(worst):
            forged = FORGED_SHARE / share[view]
            inside = forged / (1 - FORGED_SHARE + forged)
            for counters in choices:
                mixed = list(own)
                mixed[view] = (1 - inside) * own[view] + inside * counters
                after = linear_answers(plan, mixed, n)
                for place, (one, other) in enumerate(zip(after, before, strict=True)):
                    largest_moves[place] = max(largest_moves[place], np.abs(one - other).max())
    for largest_move, stated in zip(largest_moves, leverages(plan), strict=True):
        assert largest_move == pytest.approx(
            min(stated.reach, largest_move if stated.reach == 1 else 1), rel=1e-3
        )


@pytest.mark.slow
@pytest.mark.parametrize("method", ["calm", "noise-aware"])
def test_fitted_tables_move_about_as_far_as_their_linear_estimates(method: str) -> None:
    """Compare the approximation with refits on forged reports of every kind in every view."""
    domain = mixed_domain(3, 2, 4)
    plan, _ = draft(domain, "1", 1 << 16, 2, method, marginals=((0, 1), (2,)))
    codes = np.indices(domain.cardinalities).reshape(3, -1).T.astype(np.uint16)
    truth = np.random.default_rng(3).dirichlet(np.full(len(codes), 0.3))
    share = np.array([s for g in plan.groups for s in g.shares], np.float64)
    share /= share.sum()
    n = np.rint(share * (1 << 20)).astype(np.int64)
    own, worst = [], []
    for group, mechanism in zip(plan.groups, plan.mechanisms, strict=True):
        means = np.array([expected(mechanism, cell) for cell in range(mechanism.cells)])
        for view in group.views:
            true_counts = np.bincount(view.inputs(codes, domain), truth, mechanism.cells)
            own.append(true_counts @ means)
            worst.append(worst_reports(mechanism))
    before = [fitted(plan, own, n).marginal(a).table for a in plan.marginals]
    moved = np.zeros(len(plan.marginals))
    for view, choices in enumerate(worst):
        forged = FORGED_SHARE / share[view]
        inside = forged / (1 - FORGED_SHARE + forged)
        for counters in choices[:: max(1, len(choices) // 16)]:
            mixed = list(own)
            mixed[view] = (1 - inside) * own[view] + inside * counters
            model = fitted(plan, mixed, n)
            for place, a in enumerate(plan.marginals):
                shift = float(np.abs(model.marginal(a).table - before[place]).max())
                moved[place] = max(moved[place], shift)
    stated = np.array([one.reach for one in leverages(plan)])
    assert all(one.approximate for one in leverages(plan))
    assert ((moved > 0.4 * stated) & (moved < 1.4 * stated)).all(), (moved, stated)


def fitted(plan: Plan, counters: list[np.ndarray], n: np.ndarray) -> Model:
    tallies, at = [], 0
    for group in plan.groups:
        size = len(group.views)
        rows = [np.rint(counters[i] * n[i]).astype(np.int64) for i in range(at, at + size)]
        tallies.append(Tally(n[at : at + size], np.stack(rows)))
        at += size
    return methods.get(plan.method).fit(plan, tallies)


@cache
def worst_reports(mechanism: Mechanism) -> tuple[np.ndarray, ...]:
    return tuple(mechanism.tally(r, None, 1)[0].astype(np.float64) for r in reports_of(mechanism))
