"""Break one plan of five in every way, and check that the other four notice nothing.

    python -m benchmarks.service.many_plans_soak [--bootstrap HOST:PORT] [--rounds N] [--late S]

One service and one sink serve a folder with four healthy plans, which get reports all the time. A
fifth plan is broken in one way after another: a topic is deleted, its log is trimmed, a topic is
set to CreateTime, its state is of a newer version or was copied from another cluster, its estimate
fails. Each time the service must
put this plan into quarantine and state the reason. At the end every count and every final of the
four others must agree with a recount of the log, and the sink must have stored them.

The exit code is 0 if all of this holds and if no final of a healthy plan is published more than
``--late`` seconds (10) after the end of its window and grace. Without ``--bootstrap`` the program
starts its own Kafka broker (needs Java and the jars: ``make broker-jars``).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from tests.brokers.native import NativeKafka
from tests.support.service.broken_plans import FAULTS, Soak


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", help="a broker that runs (default: an own one)")
    parser.add_argument("--fault", choices=FAULTS, help="only this fault (default: all)")
    parser.add_argument("--rounds", type=int, default=1, help="how often each fault comes")
    parser.add_argument("--windows", type=int, default=2, help="finals awaited during each fault")
    parser.add_argument("--late", type=float, default=10.0, help="most seconds to a final")
    args = parser.parse_args()
    late = False
    for number in range(args.rounds):
        with tempfile.TemporaryDirectory(prefix="soak-") as name, ExitStack() as stack:
            directory, bootstrap = Path(name), args.bootstrap
            if bootstrap is None:
                broker = NativeKafka(directory / "broker").start()
                stack.callback(broker.close)
                bootstrap = broker.bootstrap
            soak = Soak(bootstrap, directory, windows=args.windows)
            stack.callback(soak.close)
            began = time.monotonic()
            outcome = soak.play((args.fault,) if args.fault else FAULTS)
        late |= max(outcome.slowest.values()) > args.late
        print(f"round {number + 1}: exact, {time.monotonic() - began:.0f} s")
        print("\n".join(f"  {line}" for line in outcome.lines()), flush=True)
    return int(late)


if __name__ == "__main__":
    sys.exit(main())
