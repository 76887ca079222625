"""Inject faults into real processes on a real broker for minutes, and check that counts stay exact.

    python -m benchmarks.service.soak [--reports N] [--faults N] [--minutes M] [--runs N] [--seed S]

The program starts its own Kafka broker (needs Java and the jars: ``make broker-jars``), three
workers on twelve partitions, a publisher and a producer. It kills, freezes and terminates
processes, restarts the broker and sends batches again. Once a second it also sends one hostile
record of each kind. Then it reads the log of reports and counts it independently of the product's
code. The workers' state, every final snapshot set (the result of one window), every total (the sum
of all windows so far) and the dead letters (rejected records) must agree with this count.

The exit code is 0 if all runs are exact, if each final is published at most 30 s after its window's
end plus grace, and if no process ends except by a fault. The program prints the longest gap without
progress, the latest final, the hostile and rejected records, and the recovery time per kind of
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
    parser.add_argument("--reports", type=int, default=5_000_000, help="reports of a run")
    parser.add_argument("--faults", type=int, default=60, help="faults of a run")
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
