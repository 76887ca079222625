"""Inject faults every second or two; then every partition must close its next window in time.

    python -m benchmarks.service.stalls [--seeds N] [--first S] [--seconds T]

Starts a Kafka of its own. Each seed has its own plan, three workers and twelve partitions. For
about 15 s workers are killed, frozen for 8 s, or terminated, every one to two seconds, and started
again. Three of four seeds have idle logs, on which only ticks close windows. Windows last one, two
or fourteen seconds; seeds of the last kind end with a pause of all workers for 8 s between two
closings. After the last fault every partition must close its next window within the session (6 s)
plus 10 s. The exit code is 0 if all did. Prints a line for each seed: the time that took, and the
longest time in which a partition with the same living worker did not close a window that was due.
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
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=15.0, help="seconds of faults")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="stalls-") as name:
        directory = Path(name)
        broker = NativeKafka(directory / "broker").start()
        try:
            chosen = range(args.first, args.first + args.seeds)
            found = play_seeds(broker, directory, chosen, args.seconds, _show)
        finally:
            broker.close()
    held = [seen for seen in found if seen.held]
    longest = max(seen.standstill for seen in found)
    print(f"{len(held)} of {len(found)} seeds held; longest standstill {longest:.1f} s")
    if held:
        print(f"longest recovery of those that held {max(seen.recovery for seen in held):.1f} s")
    return 0 if len(held) == len(found) else 1


def _show(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
