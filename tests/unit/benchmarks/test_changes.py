"""Many windows at once against the product, one pair of windows at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.changes.__main__ import RESULTS
from benchmarks.changes.batch import Windows, p_values
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


def test_the_committed_page_is_that_of_the_committed_results() -> None:
    results = Study(RESULTS / "changes.jsonl").read()
    assert len(results) > 100
    assert (RESULTS / "changes.md").read_text() == page(results)
