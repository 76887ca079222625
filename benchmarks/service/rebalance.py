"""Compare eager with cooperative rebalancing on a real broker, with this product's workers.

    python -m benchmarks.service.rebalance --bootstrap B [--repeats R]

A rebalance moves partitions between the workers of a consumer group. *Eager* rebalancing takes all
partitions from all workers first; *cooperative* rebalancing takes only those that move.

Two workers own twelve partitions while batches arrive steadily. A third worker joins and leaves
again. For each assignor (Kafka's rule of distribution) the program prints the medians over the
repeats of three numbers, for joining and for leaving: the seconds until every partition has an
owner, the number of partitions that a worker restored from its stored state, and the longest gap in
seconds in which no report was counted. At least the partitions that move are restored.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import threading
import time
from collections import defaultdict

from tests.support.service.running import Running, Stage, until

ASSIGNORS = ("cooperative-sticky", "sticky", "range")
PARTITIONS = 12
"""Divisible by two and by three workers."""


def owned(*workers: Running) -> list[float]:
    """Return the number of partitions that each worker owns."""
    return [worker.metric("assigned_partitions") for worker in workers]


def restores(*workers: Running) -> float:
    """Return how many partitions these workers have restored since they started."""
    return sum(worker.metric("restores_total") for worker in workers)


class Gap:
    """Measures the longest time in which no report is counted while batches arrive steadily."""

    def __init__(self, stage: Stage) -> None:
        self.longest = 0.0
        self._stage = stage
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=t) for t in (self._send, self._watch)]
        for thread in self._threads:
            thread.start()

    def _send(self) -> None:
        while not self._stop.wait(0.1):
            self._stage.send(2)

    def _watch(self) -> None:
        last_count, since = 0.0, time.monotonic()
        while not self._stop.wait(0.02):
            count, now = self._stage.accepted(), time.monotonic()
            if count != last_count:
                last_count, since = count, now
            self.longest = max(self.longest, now - since)

    def end(self) -> float:
        """Stop sending and measuring; return the longest gap in seconds."""
        self._stop.set()
        for thread in self._threads:
            thread.join()
        return self.longest


def measure(bootstrap: str, assignor: str, figures: dict[str, list[float]]) -> None:
    """Measure one joining and one leaving of a third worker; append the numbers to ``figures``."""
    stage = Stage(bootstrap, 1, PARTITIONS, {"assignor": assignor})
    try:
        first, second = stage.worker(), stage.worker()
        until("shared", lambda: sorted(owned(first, second)) == [6, 6], 120)
        gap = Gap(stage)
        before, began = restores(first, second), time.monotonic()
        third = stage.worker()
        until("joined", lambda: owned(first, second, third) == [4, 4, 4], 120)
        figures["join s"].append(time.monotonic() - began)
        figures["join restores"].append(restores(first, second, third) - before)
        figures["join gap s"].append(gap.end())
        gap = Gap(stage)
        before, began = restores(first, second), time.monotonic()
        third.end()
        until("left", lambda: sorted(owned(first, second)) == [6, 6], 120)
        figures["leave s"].append(time.monotonic() - began)
        figures["leave restores"].append(restores(first, second) - before)
        figures["leave gap s"].append(gap.end())
    finally:
        stage.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    for assignor in ASSIGNORS:
        figures: dict[str, list[float]] = defaultdict(list)
        for _ in range(args.repeats):
            measure(args.bootstrap, assignor, figures)
        shown = ", ".join(f"{name} {statistics.median(v):.1f}" for name, v in figures.items())
        print(f"{assignor:20} {shown}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
