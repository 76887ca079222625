"""Devices with reporters and a simulated population send through an in-process broker."""

from __future__ import annotations

import numpy as np

from calmstream import MemoryStore
from calmstream.estimators.randomness import SeededRandomness
from calmstream.producer.gateway.encoding import make_batch
from calmstream.producer.gateway.sender import BatchSender
from calmstream.producer.simulation.produce import produce
from tests.support.clock import ManualClock
from tests.support.producer import (
    START,
    broker_for,
    count,
    make_plan,
    names_of,
    records_of,
    settle_all,
    unsigned_reporter,
)


def test_devices_with_reporters_and_a_simulated_population_are_the_same_in_law() -> None:
    plan = make_plan(epsilon="2")
    n = 6000
    codes = np.zeros((n, 3), np.uint16) + np.array([1, 2, 1], np.uint16)
    record = {"colour": "green", "size": "l", "flag": "1"}

    simulated = broker_for(plan)
    produce(
        plan,
        simulated,
        names_of(plan),
        codes,
        clock=ManualClock(START * 1000),
        randomness=SeededRandomness(1),
    )
    real = broker_for(plan)
    randomness = SeededRandomness(2)
    sink = real.sink()
    sender = BatchSender(names_of(plan), lambda: sink)
    for _ in range(n):
        reporter = unsigned_reporter(plan, MemoryStore(), randomness, lambda: START * 1000)
        report = reporter.report(record)
        assert report is not None
        view = np.array([report.view])
        sender.submit(make_batch(plan, report.group, report.period, view, report.columns))
    settle_all(sender)

    one, two = (count(plan, records_of(b, plan)) for b in (simulated, real))
    assert set(one) == set(two) == {(0, 0), (1, 0), (2, 0)}
    for key, first in one.items():
        second = two[key]
        for views in range(len(first.n)):
            shares = [t.counts[views] / t.n[views] for t in (first, second)]
            pooled = (shares[0] + shares[1]) / 2
            spread = np.sqrt(pooled * (1 - pooled) * (1 / first.n[views] + 1 / second.n[views]))
            assert (np.abs(shares[0] - shares[1]) <= 5.5 * spread).all()
    assert sum(t.reports for t in two.values()) == n
