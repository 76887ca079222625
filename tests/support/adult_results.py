"""Published windows of people like those of the demo's data, for pages and pictures of pages."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from calmstream.broker.names import TopicNames
from calmstream.broker.transport import Partition
from calmstream.commands.demo import adult
from calmstream.consumer.publish.config import PublisherConfig
from calmstream.consumer.publish.session import PublishingSession
from calmstream.estimators import planning
from calmstream.estimators.domain import Codes, Domain
from calmstream.estimators.methods.base import Request
from calmstream.estimators.plan import Guarantee, Plan
from calmstream.estimators.tally import Tally
from calmstream.estimators.wire.snapshot import Kind, manifest_key
from calmstream.estimators.wire.state import (
    ClosedWindow,
    PartitionState,
    WindowCount,
    closed_key,
    encode_closed,
    encode_state,
    partition_key,
)
from calmstream.evaluation.population import collect
from tests.support.clock import ManualClock
from tests.support.faulty_broker import FaultyBroker
from tests.support.publisher import publisher_context

START = 1_793_491_200  # 1 November 2026, 00:00 UTC
HOUR = 3600
NAMESPACE = "test"
PER_WINDOW = 25_000
SEED = 20
MAX_SECONDS = 300.0  # maximum time to publish one window


@dataclass
class Results:
    """Windows of a plan on a broker of their own; further ones can follow."""

    plan: Plan  # over the attributes of the demo
    broker: FaultyBroker  # with the plan's topics
    windows: int  # number of windows that were published

    def __init__(self, windows: int, method: str) -> None:
        self._domain, self._records = adult()
        self.plan = _plan(self._domain, method)
        self._clock = ManualClock(START * 1000)
        self.broker = FaultyBroker(self._clock.now_ms, seconds=self._clock.monotonic)
        self._names = TopicNames.of(self.plan, NAMESPACE)
        self.broker.topics().create(self._names.specs(86_400_000))
        self._sink = self.broker.sink()
        self._totals = planning.empty_tallies(self.plan)
        self.windows = 0
        self._session: PublishingSession | None = None
        for _ in range(windows):
            self.finish()

    def finish(self, after_step: Callable[[], object] = int) -> None:
        """Let the devices of one more window report, and publish it; call back after each step."""
        window = self.windows
        generator = np.random.default_rng([SEED, window])
        codes = _people(self._records, self._domain.names, window, generator)
        seed = np.random.SeedSequence([SEED, window])
        tallies = collect(self.plan, codes, seed, exact=True)
        for group, tally in enumerate(tallies):
            self._totals[group] = self._totals[group] + tally
            self._put(group, window, tally)
        self._publish(after_step)
        self.windows += 1

    def _put(self, group: int, window: int, tally: Tally) -> None:
        """Write what the tally worker of a group writes when it closes a window."""
        total = WindowCount(self._totals[group])
        closed = ClosedWindow(window, window, WindowCount(tally), total)
        state = PartitionState("topic", window + 1, 0, window, 0, 0, total, {})
        for key, value in (
            (closed_key(group, 0, window), encode_closed(self.plan, closed)),
            (partition_key(group, 0), encode_state(self.plan, state)),
        ):
            self._sink.send(self._names.state, key, value, partition=0).wait(5)

    def _publish(self, after_step: Callable[[], object]) -> None:
        if self._session is None:
            config = PublisherConfig(poll_seconds=0, send_seconds=5)
            context = publisher_context(self.plan, self._names, self._clock, config)
            self._session = PublishingSession(context, self.broker)
        deadline = time.monotonic() + MAX_SECONDS
        final, idle = manifest_key(self.windows, Kind.FINAL), False
        snapshots = Partition(self._names.snapshots, 0)
        while not (idle and any(r.key == final for r in self.broker.records(snapshots))):
            assert time.monotonic() < deadline, "the window was not published in time"
            idle = not self._session.step(0.0)
            after_step()


def _plan(domain: Domain, method: str) -> Plan:
    d = len(domain)
    plan, _ = planning.draft(
        method,
        Request(domain, "1", PER_WINDOW, 2),
        name="census",
        purpose="to know how work, education and income go together",
        owner="Example Statistics Office",
        lineage="5d0f2c9b" * 4,
        start=START,
        window=HOUR,
        windows=90 * 24,
        grace=300,
        skew=300,
        partitions=1,
        guarantee=Guarantee("once"),
        marginals=[m for size in (1, 2) for m in combinations(range(d), size)],
    )
    return plan


def _people(
    records: Codes, names: tuple[str, ...], window: int, generator: np.random.Generator
) -> Codes:
    """Draw the people of a window: by day others report than at night, and more of them."""
    day = np.sin((window % 24 - 8) * np.pi / 12)
    weights: NDArray[np.float64] = np.ones(len(records))
    income = records[:, names.index("income")] == 1
    weights[income] *= 1.0 + 0.3 * day
    if window % 48 == 47:
        sex = records[:, names.index("sex")] == 0
        weights[sex] *= 2.5
    users = int(PER_WINDOW * (1.0 + 0.35 * day))
    rows = generator.choice(len(records), size=users, p=weights / weights.sum())
    return records[rows]
