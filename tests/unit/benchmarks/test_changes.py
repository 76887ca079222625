"""Many windows at once against the product, one pair of windows at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.changes.__main__ import RESULTS
from benchmarks.changes.batch import Windows, p_values
from benchmarks.changes.cells import _rates
from benchmarks.changes.simulate import windows
from benchmarks.changes.table import page
from benchmarks.study import Study
from calmstream.estimators.changes import compare
from calmstream.estimators.domain import Attribute, Domain
from calmstream.estimators.mechanisms.registry import standard
from calmstream.estimators.plan import Group
from calmstream.estimators.view import View

DOMAIN = Domain(
    (
        Attribute("a", ("x", "y", "z")),
        Attribute("b", ("0", "1")),
        Attribute("c", ("0", "1", "2", "3")),
    )
)
TABLES = [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)]
DRAWS = 6


def group(name: str, *views: tuple[int, ...]) -> Group:
    mechanism = standard(name, "1", DOMAIN.size(views[0]))
    spec: dict[str, Any] = {"name": name, "cells": mechanism.cells, **mechanism.parameters()}
    return Group(spec, tuple(View(v) for v in views), (1,) * len(views))


def drawn(groups: tuple[Group, ...], reports: tuple[int, int]) -> tuple[Windows, Windows]:
    generator = np.random.default_rng([len(groups), *reports])
    sizes = [DOMAIN.size(v.attributes) for g in groups for v in g.views]
    frequencies = [generator.dirichlet(np.full(size, 2.0)) for size in sizes]
    one, other = (windows(DOMAIN, groups, "1", frequencies, n, DRAWS, generator) for n in reports)
    return one, other


def agrees(one: Windows, other: Windows) -> int:
    """Compare all p-values with the product; return the number of missing ones."""
    found = p_values(one, other, TABLES)
    for i in range(DRAWS):
        expected = compare(one.source(i), other.source(i), TABLES, details=0.0).tables
        values = [np.nan if t.p is None else t.p for t in expected]
        np.testing.assert_allclose(found[i], values, rtol=1e-7)
    return int(np.isnan(found).sum())


@pytest.mark.parametrize(
    "name",
    [
        "grr",
        "oue",
        "sue",
        "olh",
        "subset-selection",
        "hadamard-response",
        pytest.param("hadamard-sketch", marks=pytest.mark.slow),
    ],
)
def test_each_mechanism_has_the_values_of_the_product(name: str) -> None:
    missing = agrees(*drawn((group(name, (0, 2)),), (3_000, 3_500)))
    # Nothing is said about the tables of the other attribute alone.
    assert missing == DRAWS


def test_mixed_plans_that_cover_parts_have_the_values_of_the_product() -> None:
    groups = (
        group("oue", (0, 1)), group("subset-selection", (2,)), group("grr", (1, 2)),
        group("hadamard-response", (0,)),
    )  # fmt: skip
    assert agrees(*drawn(groups, (6_000, 9_000))) == 0


def test_small_windows_are_left_to_the_product() -> None:
    groups = (group("oue", (0, 2)), group("subset-selection", (1,)))
    assert 0 < agrees(*drawn(groups, (200, 20_000))) < len(TABLES) * DRAWS
    assert agrees(*drawn(groups, (12, 15))) > 0


def test_views_that_are_not_tables_are_left_to_the_product() -> None:
    spec = {"name": "hadamard-coefficient", "cells": 2}
    bits = Domain(tuple(Attribute(name, ("0", "1")) for name in "ab"))
    generator = np.random.default_rng(8)
    args = (bits, (Group(spec, (View((0, 1), "parity", (1, 1)),), (1,)),), "1", [np.full(2, 0.5)])
    one, other = (windows(*args, n, 3, generator) for n in (900, 800))
    expected = [compare(one.source(i), other.source(i), [(0, 1)]).tables[0].p for i in range(3)]
    assert None not in expected
    np.testing.assert_allclose(p_values(one, other, [(0, 1)])[:, 0], expected, rtol=1e-12)


def test_windows_with_a_false_finding_are_counted_by_their_smallest_adjusted_value() -> None:
    p = np.array([[0.0004, 0.9, np.nan], [0.02, 0.5, 0.9], [0.2, 0.3, 0.4], [0.03, 0.04, 0.04]])
    found = _rates(p)
    assert (found["alarms"], found["findings"], found["untested"]) == (1, 2, 1)
    assert found["tests"] == 11
    assert found["shares"]["0.05"] == pytest.approx(5 / 11)


def test_the_committed_page_is_that_of_the_committed_results() -> None:
    results = Study(RESULTS / "changes.jsonl").read()
    assert len(results) > 100
    assert (RESULTS / "changes.md").read_text() == page(results)
