"""Check the evaluation of methods that learn from a pilot or read every report."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from calmstream.common.errors import InvalidInput
from calmstream.estimators import methods as registry
from calmstream.estimators.plan import Plan
from calmstream.estimators.plan.request import Request
from calmstream.evaluation import population as rounds
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


def test_em_has_no_tallies_to_draw() -> None:
    with pytest.raises(InvalidInput, match="--tallies devices"):
        run("lopub-em", tallies="law")
