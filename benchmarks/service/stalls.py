"""Check that after many faults every partition closes its next window in time.

    python -m benchmarks.service.stalls [--seeds N] [--first S] [--seconds T]

The program starts its own Kafka broker and plays one scenario for each seed: a plan, three workers
and twelve partitions. For about 15 s workers are killed, frozen for 8 s, or terminated, one every
one to two seconds, and started again. A scenario differs by its seed:

- In three of four scenarios no reports arrive during the faults. Then only ticks close windows:
  records without reports that workers send to move the time of a partition on.
- Windows last one, two or fourteen seconds. A scenario with windows of fourteen seconds ends with a
  pause of all workers for 8 s between two closings.

A scenario passes if, after the last fault, every partition closes its next window within 16 s: 6 s
until Kafka notices a dead worker (the session), plus 10 s. The exit code is 0 if all scenarios
pass. The program prints a line for each scenario with two times: how long that took, and the
longest time in which a partition of a living worker did not close a window that was due.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.brokers.native import NativeKafka
from tests.support.service.stall_seeds import play_seeds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=50, help="number of scenarios")
    parser.add_argument("--first", type=int, default=0, help="seed of the first scenario")
    parser.add_argument("--seconds", type=float, default=15.0, help="seconds of faults")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="stalls-") as name:
        directory = Path(name)
        broker = NativeKafka(directory / "broker").start()
        try:
            chosen = range(args.first, args.first + args.seeds)
            results = play_seeds(broker, directory, chosen, args.seconds, _show)
        finally:
            broker.close()
    passed = [result for result in results if result.held]
    longest = max(result.standstill for result in results)
    print(f"{len(passed)} of {len(results)} seeds passed; longest standstill {longest:.1f} s")
    if passed:
        slowest = max(result.recovery for result in passed)
        print(f"longest recovery of those that passed {slowest:.1f} s")
    return 0 if len(passed) == len(results) else 1


def _show(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
