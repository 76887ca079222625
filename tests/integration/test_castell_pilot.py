"""RR-Clusters in a stream: a pilot plan teaches the clusters, its devices are not asked again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from calmstream.pilot import learn
from consumer.publisher import Publisher, PublisherConfig
from consumer.publisher_metrics import publisher_metrics
from consumer.subscribe import Snapshot, subscribe
from estimators.errors import InvalidInput, PlanError
from estimators.plan import Guarantee, Plan
from estimators.randomness import SeededRandomness
from estimators.wire.snapshot import Kind
from producer.fleet import Fleet
from producer.produce import Summary, produce
from tests.integration.test_castell_stream import DOMAIN
from tests.plan_support import draft
from tests.producer_support import FakeClock
from tests.tally_bench import Stage
from tests.tally_support import START

N = 6000
EVERY = 5
LINEAGE = "5" * 32


def records() -> np.ndarray:
    """Colour and flag depend on each other; size on neither."""
    rng = np.random.default_rng(51)
    colour = rng.choice(3, N, p=[0.5, 0.3, 0.2])
    size = rng.choice(4, N, p=[0.4, 0.3, 0.2, 0.1])
    flag = (rng.random(N) < np.array([0.1, 0.5, 0.9])[colour]).astype(int)
    return np.stack([colour, size, flag], axis=1).astype(np.uint16)


def planned(method: str, guarantee: Guarantee, parameters: dict[str, object]) -> Plan:
    plan, _ = draft(
        DOMAIN, "12", N, 2, method, parameters, start=START, window=10, windows=1, grace=3,
        skew=2, guarantee=guarantee, lineage=LINEAGE, name=method,
    )  # fmt: skip
    return plan


def asked(stage: Stage, devices: Path, seed: int) -> Summary:
    return produce(
        stage.plan, stage.broker, stage.names, records(), clock=FakeClock(), devices=devices,
        randomness=SeededRandomness(seed), windows=1,
    )  # fmt: skip


def published(stage: Stage) -> list[Snapshot]:
    """Count, publish, and read the totals."""
    worker = stage.worker()
    publisher = Publisher(
        stage.plan,
        stage.broker,
        stage.names,
        clock=stage.clock,
        config=PublisherConfig(poll_seconds=0, refresh_seconds=1),
        metrics=publisher_metrics(CollectorRegistry(), stage.plan, stage.names),
    )
    for seconds in (5, 15, 40):
        stage.move_to(seconds)
        for _ in range(40):
            stage.turns(worker, count=1)
            publisher.turn()
    assert publisher.finished
    return list(
        subscribe(
            stage.plan, stage.broker, namespace="test", follow=False, poll_seconds=0,
            kinds=(Kind.TOTAL,),
        )
    )  # fmt: skip


def test_clusters_come_from_a_pilot_whose_devices_are_not_asked_again(tmp_path: Path) -> None:
    devices = tmp_path / "devices"
    # One window of w-event:5 asks a fifth of the devices, chosen by their secrets.
    first = Stage(planned("rr-ind-joint", Guarantee("w-event", EVERY), {}))
    with pytest.raises(InvalidInput, match="no window with reports is final yet"):
        learn("rr-clusters", first.plan, first.broker, "test")
    pilot = asked(first, devices, 52)
    assert abs(pilot.sent - N / EVERY) < 6 * (N / EVERY) ** 0.5
    published(first)
    taught = learn("rr-clusters", first.plan, first.broker, "test")
    parameters = taught.parameters
    assert taught.others(first.plan) == pilot.sent * (EVERY - 1)
    assert parameters == {"clusters": [["colour", "flag"]]}

    second = Stage(planned("rr-clusters", Guarantee(), parameters))
    rest = asked(second, devices, 53)
    assert rest.sent == N - pilot.sent
    with Fleet.open(devices, N, LINEAGE) as fleet:
        before, after = (fleet.accounts[s.plan.digest].reports for s in (first, second))
        assert (before + after == 1).all()
        codes = records()[after == 1]
    assert asked(second, devices, 54).sent == 0

    (total,) = published(second)
    assert total.manifest.reports == rest.sent
    record = total.record("colour", "flag")
    exact = DOMAIN.histogram(codes, (0, 2)) / len(codes)
    assert "covered" in record.flags
    assert (np.abs(np.array(record.table) - exact) < 6 * np.array(record.stderr)).all()


def test_only_the_right_pilot_teaches() -> None:
    stage = Stage(planned("rr-independent", Guarantee(), {}))
    with pytest.raises(PlanError, match="learns from rr-ind-joint; the pilot is rr-independent"):
        learn("rr-clusters", stage.plan, stage.broker, "test")
    with pytest.raises(PlanError, match="calm learns nothing from a pilot"):
        learn("calm", stage.plan, stage.broker, "test")
