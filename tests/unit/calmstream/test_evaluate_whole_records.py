"""Evaluating methods that learn from a pilot or read every report."""

from __future__ import annotations

import numpy as np
import pytest

from calmstream.evaluate import Result, evaluate
from calmstream.tables import Table
from estimators.errors import InvalidInput
from tests.plan_support import mixed_domain


def dependent() -> Table:
    rng = np.random.default_rng(31)
    first = rng.integers(0, 3, 4000)
    second = np.where(rng.random(4000) < 0.9, first, rng.integers(0, 3, 4000))
    third = rng.integers(0, 2, 4000)
    codes = np.stack([first, second, third], axis=1).astype(np.uint16)
    return Table(mixed_domain(3, 3, 2), codes, {})


def run(*methods: str, tallies: str = "devices", targets: int = 3) -> list[Result]:
    return list(
        evaluate(
            dependent(),
            dataset="",
            methods=methods,
            epsilons=["9"],
            k=2,
            users=4000,
            targets=targets,
            repeats=2,
            seed=32,
            tallies=tallies,  # type: ignore[arg-type]
        )
    )


def test_clusters_are_learnt_from_a_tenth_of_the_devices() -> None:
    clusters, single = run("rr-clusters", "rr-independent")
    assert clusters.method == "rr-clusters"
    assert clusters.n == 4000
    assert clusters.sse_mean < single.sse_mean / 5


@pytest.mark.parametrize("tallies", ["devices", "law"])
def test_clusters_work_with_both_kinds_of_tallies(tallies: str) -> None:
    assert run("rr-clusters", tallies=tallies)[0].sse_mean < 0.02


def test_em_reads_the_reports_and_beats_the_lasso() -> None:
    lasso, refined = run("lopub", "lopub-em")
    assert refined.sse_mean < lasso.sse_mean


def test_em_has_no_tallies_to_draw() -> None:
    with pytest.raises(InvalidInput, match="--tallies devices"):
        run("lopub-em", tallies="law")


def test_a_record_with_too_many_values_has_no_law_to_draw_from() -> None:
    codes = np.zeros((50, 13), np.uint16)
    wide = Table(mixed_domain(*(4,) * 13), codes, {})
    asked = {"dataset": "", "methods": ["rr-independent"], "epsilons": ["9"], "k": 2, "users": 50,
             "targets": 1, "repeats": 1, "seed": 1}  # fmt: skip
    assert len(list(evaluate(wide, tallies="devices", **asked))) == 1
    with pytest.raises(InvalidInput, match="too many to draw"):
        list(evaluate(wide, tallies="law", **asked))
