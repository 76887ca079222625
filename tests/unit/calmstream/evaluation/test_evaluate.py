"""Check the evaluation of methods: its results, equal data for all methods, and its refusals.

Accuracy is checked by statistical tests elsewhere.
"""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any, Literal

import numpy as np
import pytest

from calmstream.common.errors import InvalidInput, PlanError
from calmstream.estimators.domain import Domain
from calmstream.evaluation.evaluate import Result, draw_targets, evaluate
from calmstream.evaluation.population import collect, draw
from calmstream.tables.records import RecordTable
from tests.support.plans import draft, mixed_domain

CONTRACT = (
    *("dataset", "method", "epsilon", "k", "d", "n", "targets", "repeats", "tallies"),
    *("sse_mean", "sse_stderr", "tv_mean", "avd_mean", "coverage"),
    *("points", "collect_seconds", "estimate_seconds", "ranges"),
)


@pytest.fixture(scope="module")
def table() -> RecordTable:
    domain = mixed_domain(2, 3, 2, 4)
    cells = np.random.default_rng(0).choice(
        48, 500, p=np.random.default_rng(1).dirichlet([0.3] * 48)
    )
    codes = np.stack(np.unravel_index(cells, domain.cardinalities), axis=1).astype(np.uint16)
    return RecordTable(domain, codes)


def run(table: RecordTable, **changes: Any) -> list[Result]:
    options: dict[str, Any] = {
        "dataset": "toy",
        "methods": ["calm", "uniform"],
        "epsilons": ["1", "4"],
        "k": 2,
        "users": 4000,
        "targets": 4,
        "repeats": 3,
        "seed": 7,
        "tallies": "devices",
    }
    return list(evaluate(table, **(options | changes)))


def without_times(result: Result) -> dict[str, Any]:
    return {k: v for k, v in asdict(result).items() if not k.endswith("seconds")}


def test_results_have_exactly_the_contract_and_come_in_order(table: RecordTable) -> None:
    assert tuple(f.name for f in fields(Result)) == CONTRACT
    results = run(table)
    order = [(r.method, r.epsilon) for r in results]
    assert order == [("calm", 1.0), ("calm", 4.0), ("uniform", 1.0), ("uniform", 4.0)]
    first = results[0]
    assert (first.dataset, first.k, first.d, first.n) == ("toy", 2, 4, 4000)
    assert (first.targets, first.repeats, first.tallies) == (4, 3, "devices")
    assert all(r.sse_mean > 0 and r.tv_mean > 0 and r.avd_mean > 0 for r in results)
    assert all(r.collect_seconds > 0 and r.estimate_seconds > 0 for r in results)


@pytest.mark.parametrize("tallies", ["devices", "law"])
def test_the_seed_decides_everything(table: RecordTable, tallies: str) -> None:
    one, two = run(table, tallies=tallies), run(table, tallies=tallies)
    assert [without_times(r) for r in one] == [without_times(r) for r in two]
    other = run(table, tallies=tallies, seed=8)
    assert other[0].sse_mean != one[0].sse_mean


def test_methods_and_epsilons_share_devices_and_targets(table: RecordTable) -> None:
    together = run(table)
    alone = run(table, methods=["uniform"], epsilons=["4"])
    assert without_times(together[3]) == without_times(alone[0])
    # Uniform ignores epsilon, so equal errors mean equal devices and targets.
    assert together[2].sse_mean == together[3].sse_mean


def test_a_large_epsilon_beats_a_small_one_and_uniform(table: RecordTable) -> None:
    weak, strong, uniform, _ = run(table, users=40_000)
    assert strong.sse_mean < weak.sse_mean < uniform.sse_mean


def test_uniform_is_measured_against_the_drawn_devices(table: RecordTable) -> None:
    [result] = run(table, methods=["uniform"], epsilons=["1"], users=500, targets=99, repeats=2)
    assert result.targets == 6, "there are only six pairs"
    pairs = [(i, j) for i in range(4) for j in range(i + 1, 4)]
    errors, inside = [], []
    for pair in pairs:
        truth = table.domain.histogram(table.codes, pair) / 500
        away, share = truth - 1 / len(truth), 1 / len(truth)
        errors.append(np.square(away).sum())
        inside += (np.abs(away) <= 1.96 * np.sqrt(share * (1 - share))).tolist()
    assert result.sse_mean == pytest.approx(np.mean(errors))
    assert result.coverage == pytest.approx(np.mean(inside))
    assert result.sse_stderr == pytest.approx(0.0), "every repeat has every row once"


def test_the_coverage_of_exact_intervals_is_95_percent(table: RecordTable) -> None:
    """Unbiased tables have exact variances, and the noise is nearly normal."""
    options = {"methods": ["am"], "epsilons": ["1"], "tallies": "law", "targets": 6}
    [result] = run(table, **options, users=20_000, repeats=60, raw=True)
    cells = 60 * sum(
        np.prod([table.domain.cardinalities[i] for i in pair])
        for pair in draw_targets(4, 2, 6, np.random.default_rng(0))
    )
    # Cells of a table depend on each other: a third of them counts.
    assert abs(result.coverage - 0.95) < 5 * np.sqrt(0.95 * 0.05 / (cells / 3))


def test_the_spread_is_that_of_the_repeats(table: RecordTable) -> None:
    singles = [run(table, repeats=r, methods=["calm"], epsilons=["1"])[0] for r in (1, 2)]
    assert singles[0].sse_stderr is None
    first = singles[0].sse_mean
    second = 2 * singles[1].sse_mean - first
    assert singles[1].sse_stderr == pytest.approx(abs(first - second) / 2)


def test_progress_is_reported_for_every_repeat(table: RecordTable) -> None:
    calls: list[int] = []
    run(table, progress=lambda: calls.append(1))
    assert len(calls) == 2 * 2 * 3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"methods": ["calm", "magic"]}, "unknown method 'magic'"),
        ({"epsilons": ["1", "0"]}, "epsilon must"),
        ({"epsilons": ["many"]}, "epsilon must"),
        ({"k": 5}, "k: expected 1 to 4"),
        ({"users": 0}, "users: expected 1 to"),
        ({"targets": 0}, "targets and repeats must be at least 1"),
        ({"repeats": 0}, "targets and repeats must be at least 1"),
        ({"seed": -1}, "the seed not negative"),
    ],
)
def test_refusals_come_before_any_work(
    table: RecordTable, changes: dict[str, Any], message: str
) -> None:
    calls: list[int] = []
    with pytest.raises(InvalidInput, match=message) as refusal:
        run(table, progress=lambda: calls.append(1), **changes)
    assert calls == []
    assert "\n" not in str(refusal.value)


def test_targets_that_are_too_large_are_refused() -> None:
    table = RecordTable(Domain.binary(24), np.zeros((5, 24), np.uint16))
    with pytest.raises(InvalidInput, match="k = 24: a target has 16,777,216 cells"):
        run(table, k=24, methods=["uniform"])
    assert issubclass(PlanError, InvalidInput)


def test_devices_are_every_row_once_or_drawn_with_replacement() -> None:
    codes = np.arange(100, dtype=np.uint16)[:, None]
    same = draw(codes, 100, np.random.default_rng(0))
    np.testing.assert_array_equal(same, codes)
    many = draw(codes, 10_000, np.random.default_rng(0))
    counts = np.bincount(many[:, 0], minlength=100)
    assert counts.sum() == 10_000
    assert counts.std() == pytest.approx(10, rel=0.4)


@pytest.mark.parametrize("tallies", ["devices", "law"])
def test_more_devices_than_fit_into_memory_are_refused_first(
    table: RecordTable, tallies: Literal["devices", "law"]
) -> None:
    with pytest.raises(InvalidInput, match=r"2,000,000,000 devices take about .* at most") as error:
        run(table, users=2_000_000_000, tallies=tallies)
    assert ("--tallies law" in str(error.value)) == (tallies == "devices")


def test_targets_are_distinct_sorted_sets() -> None:
    targets = draw_targets(10, 3, 50, np.random.default_rng(3))
    assert len(set(targets)) == 50
    assert all(list(t) == sorted(set(t)) and len(t) == 3 for t in targets)
    assert len(draw_targets(5, 5, 50, np.random.default_rng(3))) == 1


@pytest.mark.parametrize("law", [False, True])
def test_every_device_reports_once_in_its_share(table: RecordTable, law: bool) -> None:
    plan, _ = draft(Domain.binary(16), "1.2", 1 << 18, 3, max_groups=100)
    codes = np.zeros((50_000, 16), np.uint16)
    tallies = collect(plan, codes, np.random.SeedSequence(5), exact=law)
    n = np.concatenate([tally.n for tally in tallies])
    assert [t.counts.shape for t in tallies] == [(len(g.views), 8) for g in plan.groups]
    assert n.sum() == 50_000
    assert (np.abs(n - 50_000 / 262) < 6 * np.sqrt(50_000 / 262)).all()
    for tally in tallies:
        # GRR: one count per report.
        np.testing.assert_array_equal(tally.counts.sum(axis=1), tally.n)
