"""A pilot of other devices decides which attributes RR-Clusters randomises together."""

from __future__ import annotations

import numpy as np
import pytest

from calmstream.common.errors import InvalidInput, PlanError
from calmstream.estimators.plan import Guarantee, Plan
from calmstream.estimators.randomness import SeededRandomness
from calmstream.estimators.wire.snapshot import Kind
from calmstream.planning.drafts import learn
from calmstream.producer.simulation.simulate import Population
from tests.support.plans import draft, mixed_domain
from tests.support.tally import START
from tests.support.tally_bench import Stage

DOMAIN = mixed_domain(3, 4, 2)
N = 6000
EVERY = 5
LINEAGE = "5" * 32


def records() -> np.ndarray:
    """Return records in which a0 and a2 depend on each other, and a1 on neither."""
    rng = np.random.default_rng(51)
    first = rng.choice(3, N, p=[0.5, 0.3, 0.2])
    second = rng.choice(4, N, p=[0.4, 0.3, 0.2, 0.1])
    third = rng.random(N) < np.array([0.1, 0.5, 0.9])[first]
    return np.stack([first, second, third], axis=1).astype(np.uint16)


def planned(method: str, guarantee: Guarantee, parameters: dict[str, object]) -> Plan:
    plan, _ = draft(
        DOMAIN, "12", N, 2, method, parameters, start=START, window=10, windows=1, grace=3,
        skew=2, guarantee=guarantee, lineage=LINEAGE, name=method,
    )  # fmt: skip
    return plan


def test_clusters_come_from_a_pilot_of_other_devices() -> None:
    # One window of w-event:5 asks a fifth of the devices, chosen by their secrets.
    first = Stage(planned("rr-ind-joint", Guarantee("w-event", EVERY), {}))
    with pytest.raises(InvalidInput, match="no window with reports is final yet"):
        learn("rr-clusters", first.plan, first.broker, "test")
    pilot = first.ask(records(), 52)
    asked = Population(first.plan, records(), randomness=SeededRandomness(52)).due(0)
    assert abs(pilot.sent - N / EVERY) < 6 * (N / EVERY) ** 0.5
    first.finish()
    parameters, others = learn("rr-clusters", first.plan, first.broker, "test")
    assert others == pilot.sent * (EVERY - 1)
    assert parameters == {"clusters": [["a0", "a2"]]}

    second = Stage(planned("rr-clusters", Guarantee(), parameters))
    codes = np.delete(records(), asked, axis=0)
    rest = second.ask(codes, 53)
    assert rest.sent == len(codes) == N - pilot.sent

    (total,) = second.finish(Kind.TOTAL)
    assert total.manifest.reports == rest.sent
    record = total.record("a0", "a2")
    exact = DOMAIN.histogram(codes, (0, 2)) / len(codes)
    assert "covered" in record.flags
    assert (np.abs(np.array(record.table) - exact) < 6 * np.array(record.stderr)).all()


def test_only_the_right_pilot_teaches() -> None:
    stage = Stage(planned("rr-independent", Guarantee(), {}))
    with pytest.raises(PlanError, match="learns from rr-ind-joint; the pilot is rr-independent"):
        learn("rr-clusters", stage.plan, stage.broker, "test")
    with pytest.raises(PlanError, match="calm does not learn from a pilot"):
        learn("calm", stage.plan, stage.broker, "test")
