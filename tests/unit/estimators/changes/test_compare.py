"""Tests of change against exact formulas, other implementations and simulated null windows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from calmstream.estimators.changes import Source, compare
from calmstream.estimators.changes import readings as reading
from calmstream.estimators.changes.basis import contrasts
from calmstream.estimators.changes.compare import benjamini_hochberg
from calmstream.estimators.changes.evidence import Evidence
from calmstream.estimators.changes.fit import fit
from calmstream.estimators.domain import Attribute, Domain
from calmstream.estimators.mechanisms.base import Mechanism
from calmstream.estimators.mechanisms.registry import build
from calmstream.estimators.plan.counted import CountedView
from calmstream.estimators.view import View

DOMAIN = Domain((Attribute("a", ("x", "y", "z")), Attribute("b", ("0", "1"))))
PI = np.array([0.3, 0.1, 0.2, 0.1, 0.2, 0.1])
GRR: dict[str, Any] = {"name": "grr", "cells": 6}


def observed(
    spec: dict[str, Any], n: int, pi: Any, generator: np.random.Generator, *own: int
) -> CountedView:
    attributes, mechanism = own or (0, 1), build(spec, "1")
    sums = {(0, 1): pi, (0,): pi.reshape(3, 2).sum(axis=1), (1,): pi.reshape(3, 2).sum(axis=0)}
    histogram = generator.multinomial(n, sums[attributes])
    counts = mechanism.draw_tally(histogram, generator)
    return CountedView(View(attributes), mechanism, n, counts)


def one_view(
    mechanism: Mechanism, n: int, pi: Any, generator: np.random.Generator, domain: Domain = DOMAIN
) -> Source:
    counts = mechanism.draw_tally(generator.multinomial(n, pi), generator)
    return Source(domain, (CountedView(View((0, 1)), mechanism, n, counts),))


def mixed(n: int, pi: Any, generator: np.random.Generator) -> Source:
    views = (
        observed({"name": "oue", "cells": 6}, n, pi, generator),
        observed({"name": "subset-selection", "cells": 3, "size": 1}, n // 2, pi, generator, 0),
        observed({"name": "hadamard-coefficient", "cells": 2}, n // 3, pi, generator, 1),
    )
    return Source(DOMAIN, views)


@pytest.mark.parametrize("shape", [(2,), (7,), (3, 2)])
def test_functions_are_orthonormal_and_none_is_constant(shape: tuple[int, ...]) -> None:
    own = contrasts(shape)
    np.testing.assert_allclose(own.T @ own / len(own), np.eye(len(own) - 1), atol=1e-12)
    np.testing.assert_allclose(own.sum(axis=0), 0.0, atol=1e-12)


def test_one_covering_view_of_equal_plans_gives_pearsons_statistic() -> None:
    generator = np.random.default_rng(1)
    one, other = (observed(GRR, n, PI, generator) for n in (5000, 9000))
    found = compare(Source(DOMAIN, (one,)), Source(DOMAIN, (other,)), [(0, 1)]).tables[0]
    expected = stats.chi2_contingency(np.array([one.counts, other.counts]))
    assert found.statistic == pytest.approx(expected.statistic, rel=1e-9)
    assert found.freedom == expected.dof
    assert found.p == pytest.approx(expected.pvalue, rel=1e-9)
    assert found.covered


def test_the_fit_is_the_best_linear_one() -> None:
    generator = np.random.default_rng(2)
    pieces, rows, right = [], [], []
    for size in (5, 3, 4):
        design = generator.normal(size=(size, 6))
        root = generator.normal(size=(size, size)) + 3 * np.eye(size)
        z, offset = generator.normal(size=size), generator.normal(size=size)
        pieces.append(Evidence(z, offset, root.T @ root, design, np.arange(0)))
        rows.append(root @ design)
        right.append(root @ (z - offset))
    found = fit(pieces, 6)
    stacked = np.concatenate(rows)
    solved = np.linalg.lstsq(stacked, np.concatenate(right), rcond=None)[0]
    np.testing.assert_allclose(found.theta, solved, rtol=1e-8)
    np.testing.assert_allclose(found.covariance, np.linalg.inv(stacked.T @ stacked), rtol=1e-8)


@pytest.mark.parametrize(
    "target", [*(pytest.param(t, marks=pytest.mark.slow) for t in ((0,), (1,))), (0, 1)]
)
def test_p_values_of_equal_sources_are_uniform(target: tuple[int, ...]) -> None:
    generator = np.random.default_rng(3)
    found = [
        compare(mixed(2000, PI, generator), mixed(5000, PI, generator), [target]).tables[0]
        for _ in range(150)
    ]
    assert stats.kstest([one.p for one in found], "uniform").pvalue > 1e-6
    if len(target) > 1:
        dependences = [one.dependence for one in found]
        assert stats.kstest(dependences, "uniform").pvalue > 1e-6


def test_as_many_reports_as_cells_make_no_tiny_p_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """The covariance of the reported frequencies is nearly singular there."""
    domain = Domain(tuple(Attribute(name, tuple("abcdef")) for name in "xy"))
    mechanism = build({"name": "subset-selection", "cells": 36, "size": 18}, "1")
    generator, even = np.random.default_rng(12), np.full(36, 1 / 36)
    sides = [one_view(mechanism, 19, even, generator, domain) for _ in range(400)]
    pairs = list(zip(sides[::2], sides[1::2], strict=True))

    def tests() -> list[float]:
        found = [compare(*pair, [(0, 1)], details=False).tables[0].p for pair in pairs]
        return [p for p in found if p is not None]

    assert len(tests()) > 50
    assert min(tests()) > 1e-5
    monkeypatch.setattr(reading, "MIN_PER_CELL", 0)
    assert min(tests()) < 1e-9, "the fault is gone: delete MIN_PER_CELL"


def test_a_shift_is_found_and_its_cells_are_estimated() -> None:
    generator = np.random.default_rng(5)
    shifted = PI + np.array([0.06, -0.02, -0.04, 0.0, 0.0, 0.0])
    found = compare(mixed(60_000, PI, generator), mixed(60_000, shifted, generator), [(0, 1)])
    table = found.tables[0]
    assert table.changed
    assert found.changed == found.tested == 1
    assert table.difference is not None
    assert table.stderr is not None
    assert (np.abs(table.difference - (shifted - PI)) < 5 * table.stderr).all()
    assert table.difference.sum() == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize(
    ("kind", "factors", "modulus"), [("parity", (3, 1), 0), ("character", (2, 1), 6)]
)
def test_other_views_inform_about_the_table_that_holds_them(
    kind: Any, factors: tuple[int, ...], modulus: int
) -> None:
    """An input is the sum of the cells that are mapped to it; a null p-value is uniform."""
    view = View((0, 1), kind, factors, modulus)
    cells = view.cells(DOMAIN)
    name = "hadamard-coefficient" if cells == 2 else "grr"
    mechanism = build({"name": name, "cells": cells}, "1")
    codes = np.indices((3, 2)).reshape(2, -1).T.astype(np.uint16)
    inputs = np.bincount(view.inputs(codes, DOMAIN), weights=PI, minlength=cells)
    generator = np.random.default_rng(8)
    values = []
    for _ in range(200):
        sides = []
        for n in (4000, 9000):
            counts = mechanism.draw_tally(generator.multinomial(n, inputs), generator)
            own = CountedView(view, mechanism, n, counts)
            sides.append(
                Source(DOMAIN, (own, observed({"name": "oue", "cells": 3}, n, PI, generator, 0)))
            )
        table = compare(sides[0], sides[1], [(0, 1)], details=False).tables[0]
        values.append(table.p)
    assert stats.kstest(values, "uniform").pvalue > 1e-6
    assert table.covered == (kind == "character")
    if kind == "parity":
        assert (0, 1) in table.uncovered


def test_small_counts_against_many_are_left_out() -> None:
    """The far tail of chi-square is too light there; with even sides the same counts are tested."""
    generator = np.random.default_rng(11)
    rare = np.array([0.9, 0.06, 0.01, 0.01, 0.01, 0.01])
    mechanism = build(GRR, "4")
    few, many, some, more = (
        one_view(mechanism, n, rare, generator) for n in (300, 30_000, 1000, 3000)
    )
    found = compare(few, many, [(0, 1)]).tables[0]
    assert found.p is None
    assert "fewer than 40" not in found.reason and "40 where one side" in found.reason  # noqa: PT018
    assert compare(few, some, [(0, 1)]).tables[0].p is not None
    assert compare(more, many, [(0, 1)]).tables[0].p is not None


def test_adjusted_values_are_those_of_another_implementation() -> None:
    values = [0.03, None, 0.001, 0.2, 0.03, 0.0004, 0.9]
    expected = iter(stats.false_discovery_control([p for p in values if p is not None]))
    found = benjamini_hochberg(values)
    assert found[1] is None
    np.testing.assert_allclose([p for p in found if p is not None], list(expected))


@pytest.mark.slow
def test_devices_that_report_again_widen_the_test() -> None:
    """Ten reports of the same 1,000 people sample people no better than one report each."""
    generator = np.random.default_rng(15)
    mechanism = build(GRR, "4")
    values: dict[float, list[float]] = {1.0: [], 10.0: []}
    for _ in range(200):
        sides = []
        for _ in range(2):
            people = generator.multinomial(1000, PI)
            counts = sum(mechanism.draw_tally(people, generator) for _ in range(10))
            sides.append(counts)
        for repeats, found in values.items():
            one, other = (
                Source(DOMAIN, (CountedView(View((0, 1)), mechanism, 10_000, c, repeats),))
                for c in sides
            )
            p = compare(one, other, [(0, 1)], details=False).tables[0].p
            assert p is not None
            found.append(p)
    assert stats.kstest(values[10.0], "uniform").pvalue > 1e-6
    assert np.mean(np.array(values[1.0]) < 0.05) > 0.2


@pytest.mark.parametrize("name", ["oue", "sue", "olh"])
def test_one_view_of_independent_bits_gives_the_quadratic_form(name: str) -> None:
    """The formula by which the benchmark measures the far tail of chi-square."""
    generator = np.random.default_rng(16)
    more = {"buckets": 4, "seed_bits": 32} if name == "olh" else {}
    sides = [observed({"name": name, "cells": 6, **more}, n, PI, generator) for n in (5000, 90_000)]
    found = compare(*(Source(DOMAIN, (one,)) for one in sides), [(0, 1)]).tables[0]
    mechanism: Any = sides[0].mechanism
    p, q = float(mechanism.p), float(mechanism.q)
    counts, n = sum(one.counts for one in sides), sum(one.n for one in sides)
    pooled, basis = (counts / n - q) / (p - q), contrasts((3, 2))
    supported = q + (p - q) * pooled
    spread = -np.outer(pooled, pooled)
    np.fill_diagonal(spread, supported * (1.0 - supported) / (p - q) ** 2)
    inner = basis.T @ spread @ basis * sum(1.0 / one.n for one in sides)
    moved = (sides[0].counts / sides[0].n - sides[1].counts / sides[1].n) / (p - q) @ basis
    assert found.statistic == pytest.approx(moved @ np.linalg.solve(inner, moved), rel=1e-9)
    assert found.freedom == 5
