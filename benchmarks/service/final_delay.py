"""Measure how long two finals take that are due at once, with and without tests of change.

The plan is CALM over eight attributes of Adult. Windows are small, and the last two are of other
people than those before: so many p-values come from simulated counts, which takes long. The broker
is in memory.

    python -m benchmarks.service.final_delay PAIRS

prints for each pair of measurements the seconds from the last closed record until both finals and
totals are written, with tests and without, and until the tests are written; at the end the medians.
"""

from __future__ import annotations

import argparse
import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import time
from collections.abc import Callable, Sequence
from functools import cache
from statistics import median

import numpy as np
import structlog

from benchmarks.changes.simulate import records
from calmstream.broker.in_process import InProcessBroker
from calmstream.broker.names import TopicNames
from calmstream.broker.transport import Partition
from calmstream.common.clock import SystemClock
from calmstream.consumer.publish.config import PublisherConfig
from calmstream.consumer.publish.session import PublishingSession
from calmstream.estimators.plan import Plan
from calmstream.estimators.tally import Tally
from calmstream.estimators.wire.state import ClosedWindow, WindowCount, closed_key, encode_closed
from calmstream.evaluation.population import collect
from tests.support.plans import draft
from tests.support.publisher import publisher_context

WINDOWS, DUE, USERS = 24, 2, 1 << 12
DEADLINE = 600.0


@cache
def plan_of() -> Plan:
    """Return the plan."""
    return draft(records("adult")[0], users=USERS, method="calm", windows=WINDOWS)[0]


@cache
def windows_of() -> list[Sequence[Tally]]:
    """Return the counts of every window."""
    _, codes = records("adult")
    random = np.random.default_rng(1)
    order = np.lexsort(codes.T)
    drawn = []
    for window in range(WINDOWS):
        pool = order[: len(order) // 4] if window >= WINDOWS - DUE else order
        rows = codes[random.choice(pool, USERS)]
        drawn.append(collect(plan_of(), rows, np.random.SeedSequence(window), exact=True))
    return drawn


class Stage:
    """A publisher on a broker in memory."""

    def __init__(self, *, tests: bool) -> None:
        plan = plan_of()
        self.names = TopicNames("bench", plan.name, plan.digest, len(plan.groups), plan.partitions)
        self.broker = InProcessBroker()
        self.broker.topics().create(self.names.specs(86_400_000))
        self.sink = self.broker.sink()
        config = PublisherConfig(test_changes=tests)
        context = publisher_context(plan, self.names, SystemClock(), config)
        self.session = PublishingSession(context, self.broker)

    def close(self, window: int) -> None:
        """Write the closed records of a window."""
        plan, drawn = plan_of(), windows_of()
        for group in range(len(plan.groups)):
            total = drawn[0][group]
            for tallies in drawn[1 : window + 1]:
                total = total + tallies[group]
            record = ClosedWindow(
                window, window, WindowCount(drawn[window][group]), WindowCount(total)
            )
            value = encode_closed(plan, record)
            key = closed_key(group, 0, window)
            self.sink.send(self.names.state, key, value, partition=0).wait(5)

    def count(self, topic: str, ending: bytes) -> int:
        """Return the number of records whose key has this ending."""
        found = self.broker.records(Partition(topic, 0))
        return sum((record.key or b"").endswith(ending) for record in found)

    def work(self, until: Callable[[], bool]) -> None:
        """Let the publisher work until a condition holds."""
        deadline = time.monotonic() + DEADLINE
        while not until():
            assert time.monotonic() < deadline
            self.session.step(0.05)

    def published(self, windows: int) -> bool:
        """Return whether so many windows have a final and a total."""
        kinds = (b"final", b"total")
        counts = (self.count(self.names.snapshots, b"/%s/manifest" % kind) for kind in kinds)
        return min(counts) >= windows

    def tested(self) -> bool:
        """Return whether the newest window is tested."""
        return not self.session._tests.pending  # noqa: SLF001 - no role needs to know


def measure(*, tests: bool) -> tuple[float, float]:
    """Return the seconds until the last windows are published, and until they are tested."""
    stage, before = Stage(tests=tests), WINDOWS - DUE
    for window in range(before):
        stage.close(window)
    stage.work(lambda: stage.published(before) and stage.tested())
    for window in range(before, WINDOWS):
        stage.close(window)
    began = time.monotonic()
    stage.work(lambda: stage.published(WINDOWS))
    published = time.monotonic() - began
    stage.work(stage.tested)
    return published, time.monotonic() - began


def main() -> None:
    """Measure with and without tests by turns."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pairs", type=int, help="pairs of measurements")
    pairs = parser.parse_args().pairs
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    found: list[tuple[float, float, float]] = []
    for _ in range(pairs):
        published, tested = measure(tests=True)
        alone, _ = measure(tests=False)
        found.append((published, alone, tested))
        print(f"with tests {published:.2f} s, without {alone:.2f} s, tested {tested:.2f} s")
    with_tests, without, tested = (median(column) for column in zip(*found, strict=True))
    ratio = median(a / b for a, b, _ in found)
    print(
        f"medians: with tests {with_tests:.2f} s, without {without:.2f} s (ratio {ratio:.2f}), "
        f"tested after {tested:.2f} s"
    )


if __name__ == "__main__":
    main()
