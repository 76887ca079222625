"""Inject faults into real processes on a real broker for minutes; counts must stay exact.

    python -m benchmarks.service.soak [--reports N] [--faults N] [--minutes M] [--runs N] [--seed S]

Starts a Kafka of its own (Java and the jars: ``make broker-jars``), three workers on twelve
partitions, a publisher and a producer. It kills, freezes and terminates processes, restarts the
broker and resends batches, while one hostile record of each kind is sent once a second. Then it
compares the state, every final, every total and the dead letters with a recount of the log that
does not use the product's fold. The exit code is 0 if all runs were exact, no final was later than
30 s after its window's end plus grace, and no process ended except by a fault. Prints the longest
gap without progress, the latest final, hostile and rejected records, and recovery times per kind of
fault.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

from tests.brokers.native import NativeKafka
from tests.support.service.ordeal import FAULTS, Ordeal


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reports", type=int, default=5_000_000)
    parser.add_argument("--faults", type=int, default=60)
    parser.add_argument("--minutes", type=float, default=8.0, help="minutes of sending reports")
    parser.add_argument("--pause", type=float, default=1.0, help="seconds between two faults")
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--window", type=int, default=60, help="length of a window in seconds")
    parser.add_argument("--grace", type=int, default=30, help="grace in seconds")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=20261120)
    args = parser.parse_args()
    for number in range(args.runs):
        dice = random.Random(args.seed + number)  # noqa: S311 - an order of faults
        faults = [FAULTS[i % len(FAULTS)] for i in range(args.faults)]
        dice.shuffle(faults)
        with tempfile.TemporaryDirectory(prefix="soak-") as name:
            directory = Path(name)
            broker = NativeKafka(directory / "broker").start()
            try:
                rate = args.reports / (args.minutes * 60)
                ordeal = Ordeal(
                    broker,
                    directory,
                    reports=args.reports,
                    rate=rate,
                    workers=args.workers,
                    window=args.window,
                    grace=args.grace,
                )
                began = time.monotonic()
                outcome = ordeal.play(faults, args.pause, args.seed + number)
            finally:
                broker.close()
        print(f"run {number + 1}: exact in every cell, {time.monotonic() - began:.0f} s")
        print("\n".join(f"  {line}" for line in outcome.lines()), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
