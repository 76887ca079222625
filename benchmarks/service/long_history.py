"""Measure what 10,000 windows cost a publisher: python -m benchmarks.service.long_history.

At a start it decodes the kept counts of all windows and adds them to the tracker; then it adds one
a window. A plan of 34 views over eight attributes of Adult, hourly windows.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
from collections.abc import Iterator
from dataclasses import replace

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from benchmarks.populations import population
from calmstream.estimators import methods
from calmstream.estimators.plan import Plan
from calmstream.estimators.plan.request import Request
from calmstream.estimators.tracking.tracker import Tracker
from calmstream.estimators.wire.counts import GroupCounts, decode_counts, encode_counts
from calmstream.evaluation.population import collect, local_plan

WINDOWS, DEVICES, HOUR = 10_000, 20_000, 3600
SHOWN = {10, 100, 1000, 3000, WINDOWS}


def records(plan: Plan) -> Iterator[list[bytes]]:
    """Yield the kept counts of each window, a record for each group."""
    codes = population("adult").codes[:DEVICES]
    drawn = [collect(plan, codes, np.random.SeedSequence(seed), exact=True) for seed in range(16)]
    for window in range(WINDOWS):
        tallies = drawn[window % len(drawn)]
        yield [
            encode_counts(plan, GroupCounts(window, group, (window + 1,), tally, tally))
            for group, tally in enumerate(tallies)
        ]


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    plan = local_plan(
        methods.get("noise-aware"), Request(population("adult").domain, "1", DEVICES, 2)
    )
    plan = replace(plan, window=HOUR, expires=HOUR * WINDOWS)
    tracker, spent = Tracker(plan), 0.0
    print(f"{sum(len(group.views) for group in plan.groups)} views")
    for window, raw in enumerate(records(plan), 1):
        began = time.process_time()
        tracker.add(window - 1, [decode_counts(plan, one).tally for one in raw])
        spent += time.process_time() - began
        if window in SHOWN:
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            each = f"{1000 * spent / window:.2f} ms each"
            print(f"{window:6,} windows: {spent:6.1f} s, {each}, {memory:.0f} MB", flush=True)
    began = time.process_time()
    tracker.current()
    print(f"the current counts: {1000 * (time.process_time() - began):.1f} ms")


if __name__ == "__main__":
    main()
