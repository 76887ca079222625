"""Check the evaluation of methods that learn from a pilot or read every report."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from calmstream.common.errors import InvalidInput
from calmstream.estimators import methods as registry
from calmstream.estimators.papers.castell.design import product_group
from calmstream.estimators.plan import Plan
from calmstream.estimators.plan.request import Request
from calmstream.estimators.randomness import SeededRandomness
from calmstream.evaluation import rounds
from calmstream.evaluation.evaluate import Result, evaluate
from calmstream.evaluation.population import collect
from calmstream.tables.records import RecordTable
from tests.support.plans import mixed_domain


def dependent() -> RecordTable:
    rng = np.random.default_rng(31)
    first = rng.integers(0, 3, 4000)
    second = np.where(rng.random(4000) < 0.9, first, rng.integers(0, 3, 4000))
    third = rng.integers(0, 2, 4000)
    codes = np.stack([first, second, third], axis=1).astype(np.uint16)
    return RecordTable(mixed_domain(3, 3, 2), codes)


def run(
    *methods: str, tallies: str = "devices", targets: int = 3, pilot: float = 0.0, repeats: int = 2
) -> list[Result]:
    return list(
        evaluate(
            dependent(),
            dataset="",
            methods=methods,
            epsilons=["9"],
            k=2,
            users=4000,
            targets=targets,
            repeats=repeats,
            seed=32,
            tallies=tallies,  # type: ignore[arg-type]
            pilot=pilot,
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


@pytest.mark.slow
def test_a_pilot_of_another_share_and_of_methods_that_need_none() -> None:
    tenth, half = run("rr-clusters")[0], run("rr-clusters", pilot=0.5)[0]
    assert run("rr-clusters", pilot=0.1)[0].sse_mean == tenth.sse_mean != half.sse_mean
    for tallies in ("devices", "law"):
        once, twice = (run("noise-aware", pilot=p, tallies=tallies)[0] for p in (0.0, 0.3))
        assert once.sse_mean != twice.sse_mean < 0.01
    assert run("calm", pilot=0.3)[0].sse_mean == run("calm")[0].sse_mean, "it learns nothing"


@pytest.mark.parametrize("share", [-0.1, 1.0, float("nan")])
def test_a_pilot_of_no_share_is_refused(share: float) -> None:
    with pytest.raises(InvalidInput, match="the share of a pilot must be above 0"):
        run("noise-aware", pilot=share)


def test_no_device_is_asked_in_both_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    devices: list[np.ndarray] = []

    def counting(plan: Plan, codes: np.ndarray, *rest: Any, **options: Any) -> Any:
        devices.append(codes)
        return collect(plan, codes, *rest, **options)

    monkeypatch.setattr(rounds, "collect", counting)
    codes = np.arange(1000, dtype=np.uint16).reshape(500, 2) % 2
    codes[:200, 0] = 1 - codes[:200, 0]
    method = registry.get("noise-aware")
    pilot = rounds.local_plan(method, Request(mixed_domain(2, 2), "1", 150, 2))
    rounds.two_rounds(method, pilot, codes, np.random.SeedSequence(33), exact=True)()
    assert [len(part) for part in devices] == [150, 350]
    together = np.concatenate(devices)
    assert sorted(map(tuple, together.tolist())) == sorted(map(tuple, codes.tolist()))
    assert (together != codes).any(), "the pilot is no beginning of the table"


def test_one_device_is_too_few_for_two_rounds() -> None:
    for method, pilot in (("noise-aware", 0.3), ("rr-clusters", 0.0)):
        with pytest.raises(InvalidInput, match="at least 2 devices"):
            evaluate(
                dependent(),
                dataset="",
                methods=[method],
                epsilons=["1"],
                k=2,
                users=1,
                targets=1,
                repeats=1,
                seed=1,
                tallies="law",
                pilot=pilot,
            )


@pytest.mark.slow
def test_em_reads_the_reports_and_beats_the_lasso() -> None:
    lasso, refined = run("lopub", "lopub-em", repeats=8)
    assert refined.sse_mean < lasso.sse_mean


def test_em_has_no_tallies_to_draw() -> None:
    with pytest.raises(InvalidInput, match="--tallies devices"):
        run("lopub-em", tallies="law")


def wide() -> RecordTable:
    codes = np.random.default_rng(33).integers(0, 4, (50, 13)).astype(np.uint16)
    return RecordTable(mixed_domain(*(4,) * 13), codes)


ONCE = {"dataset": "", "epsilons": ["9"], "k": 2, "users": 50, "targets": 1, "repeats": 1,
        "seed": 1}  # fmt: skip


@pytest.mark.parametrize("method", ["rr-ind-joint", "rr-independent"])
def test_records_of_very_many_values_are_drawn_report_by_report(method: str) -> None:
    assert len(list(evaluate(wide(), tallies="law", methods=[method], **ONCE))) == 1


def test_whole_records_that_are_counted_apart_have_one_law() -> None:
    domain = mixed_domain(2, 3, 2)
    codes = np.stack(np.unravel_index(np.arange(500) % 7, (2, 3, 2)), axis=1).astype(np.uint16)
    request = Request(domain, "2", 500, 1)
    blocks, tables = ((0,), (1, 2)), ((0,), (1,), (1, 2))
    group, mechanism = product_group(request, blocks, tables)
    values = group.views[0].inputs(codes, domain)
    generator = np.random.default_rng(34)
    runs = 2000
    drawn = np.array([mechanism.draw_tally_of(values, generator) for _ in range(runs)], float)
    histogram = np.bincount(values, minlength=domain.size())
    again = np.array([mechanism.draw_tally(histogram, generator) for _ in range(runs)], float)
    reports = mechanism.perturb(np.tile(values, runs), SeededRandomness(35))
    view = np.repeat(np.arange(runs), len(values))
    counted = mechanism.tally(reports, view, runs).astype(float)
    for sample in (drawn, again):
        spread = np.sqrt((sample.var(axis=0) + counted.var(axis=0)) / runs)
        assert (np.abs(sample.mean(axis=0) - counted.mean(axis=0)) < 5 * spread).all()
        gap = np.cov(sample.T) - np.cov(counted.T)
        sizes = np.sqrt(np.outer(counted.var(axis=0), counted.var(axis=0)))
        assert (np.abs(gap) < 5 * sizes * np.sqrt(4 / runs)).all()
