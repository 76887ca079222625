from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest

from calmstream.common.errors import InvalidInput
from calmstream.estimators import methods as registry
from calmstream.estimators.methods.base import Request
from calmstream.estimators.plan import Plan
from calmstream.evaluation import population
from calmstream.evaluation.evaluate import Result, evaluate
from calmstream.evaluation.population import Study, collect, local_plan, two_rounds
from calmstream.tables.records import RecordTable
from tests.support.plans import mixed_domain


@pytest.fixture(scope="module")
def table() -> RecordTable:
    domain = mixed_domain(2, 3, 2, 4)
    cells = np.random.default_rng(0).choice(
        48, 500, p=np.random.default_rng(1).dirichlet([0.3] * 48)
    )
    codes = np.stack(np.unravel_index(cells, domain.cardinalities), axis=1).astype(np.uint16)
    return RecordTable(domain, codes)


def run(table: RecordTable, tallies: Any = "devices", **changes: Any) -> list[Result]:
    study = Study(table, ["calm", "uniform"], ["1", "4"], 2, 4000, targets=4, seed=7, repeats=3)
    return list(evaluate(replace(study, **changes), dataset="toy", tallies=tallies))


def without_times(result: Result) -> dict[str, Any]:
    return {k: v for k, v in asdict(result).items() if not k.endswith("seconds")}


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


@pytest.mark.parametrize("tallies", ["devices", "law"])
def test_more_devices_than_fit_into_memory_are_refused_first(
    table: RecordTable, tallies: str
) -> None:
    with pytest.raises(InvalidInput, match=r"2,000,000,000 devices take about .* at most") as error:
        run(table, users=2_000_000_000, tallies=tallies)
    assert ("--tallies law" in str(error.value)) == (tallies == "devices")


def test_clusters_are_learnt_from_a_tenth_of_the_devices() -> None:
    rng = np.random.default_rng(31)
    first = rng.integers(0, 3, 4000)
    second = np.where(rng.random(4000) < 0.9, first, rng.integers(0, 3, 4000))
    codes = np.stack([first, second, rng.integers(0, 2, 4000)], axis=1).astype(np.uint16)
    dependent = RecordTable(mixed_domain(3, 3, 2), codes)
    names = ["rr-clusters", "rr-independent"]
    clusters, single = run(dependent, methods=names, epsilons=["9"], targets=3, repeats=2, seed=32)
    assert (clusters.method, clusters.n) == ("rr-clusters", 4000)
    assert clusters.sse_mean < single.sse_mean / 5


def test_no_device_is_asked_in_both_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    devices: list[np.ndarray] = []

    def counting(plan: Plan, codes: np.ndarray, *rest: Any, **options: Any) -> Any:
        devices.append(codes)
        return collect(plan, codes, *rest, **options)

    monkeypatch.setattr(population, "collect", counting)
    codes = np.arange(1000, dtype=np.uint16).reshape(500, 2) % 2
    codes[:200, 0] = 1 - codes[:200, 0]
    method = registry.get("noise-aware")
    pilot = local_plan(method, Request(mixed_domain(2, 2), "1", 150, 2))
    two_rounds(method, pilot, codes, np.random.SeedSequence(33), exact=True)()
    assert [len(part) for part in devices] == [150, 350]
    together = np.concatenate(devices)
    assert sorted(map(tuple, together.tolist())) == sorted(map(tuple, codes.tolist()))
    assert (together != codes).any(), "the pilot is no beginning of the table"


def test_em_has_no_tallies_to_draw(table: RecordTable) -> None:
    with pytest.raises(InvalidInput, match="--tallies devices"):
        run(table, methods=["lopub-em"], tallies="law")
