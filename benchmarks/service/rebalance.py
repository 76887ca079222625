"""Compare eager with cooperative rebalancing on a real broker, with this product's workers.

    python -m benchmarks.service.rebalance --bootstrap B [--repeats R]

Two workers own twelve partitions while each partition receives a batch a second; a third worker
joins and leaves again. Prints for each assignor how long it took until every partition had an
owner, and how many partitions were restored; the smallest possible number is that of the partitions
that move.
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


def owned(*workers: Running) -> list[float]:
    return [worker.metric("assigned_partitions") for worker in workers]


def restores(*workers: Running) -> float:
    return sum(worker.metric("restores_total") for worker in workers)


class Gap:
    """Measures the longest time in which no worker reads a record while batches arrive steadily."""

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
        seen, since = 0.0, time.monotonic()
        while not self._stop.wait(0.02):
            read, now = self._stage.accepted(), time.monotonic()
            if read != seen:
                seen, since = read, now
            self.longest = max(self.longest, now - since)

    def end(self) -> float:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        return self.longest


def measure(bootstrap: str, assignor: str, found: dict[str, list[float]]) -> None:
    stage = Stage(bootstrap, 1, PARTITIONS, {"assignor": assignor})
    try:
        first, second = stage.worker(), stage.worker()
        until("shared", lambda: sorted(owned(first, second)) == [6, 6], 120)
        gap = Gap(stage)
        before, began = restores(first, second), time.monotonic()
        third = stage.worker()
        until("joined", lambda: owned(first, second, third) == [4, 4, 4], 120)
        found["join s"].append(time.monotonic() - began)
        found["join restores"].append(restores(first, second, third) - before)
        found["join gap s"].append(gap.end())
        gap = Gap(stage)
        before, began = restores(first, second), time.monotonic()
        third.end()
        until("left", lambda: sorted(owned(first, second)) == [6, 6], 120)
        found["leave s"].append(time.monotonic() - began)
        found["leave restores"].append(restores(first, second) - before)
        found["leave gap s"].append(gap.end())
    finally:
        stage.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    for assignor in ASSIGNORS:
        found: dict[str, list[float]] = defaultdict(list)
        for _ in range(args.repeats):
            measure(args.bootstrap, assignor, found)
        shown = ", ".join(f"{name} {statistics.median(v):.1f}" for name, v in found.items())
        print(f"{assignor:20} {shown}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
