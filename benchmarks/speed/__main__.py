"""Print one table of speeds: each line beside its aim and a limit measured in the same run.

    make bench
    make bench ARGS="--only device,fitting"

Rates and times are in processor time of one core, the best of the repeats. Compare a number with
the limit beside it, not with a number of another run: other load slows both down.

The lines about the service need a broker: that of ``--bootstrap`` or ``CALMSTREAM_TEST_BOOTSTRAP``,
or else one that the program starts. The line about Private-PGM needs its environment
(``make pgm ARGS=table`` makes it).
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import argparse
import platform
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime

import structlog

from benchmarks.speed import device, fitting, private_pgm, publishing, service
from benchmarks.speed.rows import Row, head
from calmstream.broker.kafka import connect
from tests.brokers.jars import Unavailable
from tests.brokers.native import NativeKafka

PARTS = ("device", "fitting", "pgm", "service", "publishing")


def rows(args: argparse.Namespace, stack: ExitStack) -> Iterator[Row]:
    if "service" in args.only:
        # First, because the number is a difference of the process's memory.
        yield service.memory_row()
    if "device" in args.only:
        yield from device.rows(args.repeats)
    if "fitting" in args.only:
        yield from fitting.rows(args.repeats)
    if "pgm" in args.only:
        yield from private_pgm.rows(args.repeats)
    bootstrap = _bootstrap(args, stack)
    if "service" in args.only and bootstrap is not None:
        broker = connect(bootstrap, linger_seconds=0.05)
        stack.callback(broker.close)
        yield from service.broker_rows(broker, bootstrap, args.records, args.repeats)
    if "publishing" in args.only:
        yield from publishing.rows(args.repeats, bootstrap)


def _bootstrap(args: argparse.Namespace, stack: ExitStack) -> str | None:
    """Return a broker's address; None if no line needs one, or there is none."""
    if args.bootstrap is not None or not {"service", "publishing"} & set(args.only):
        return args.bootstrap  # type: ignore[no-any-return]
    try:
        return stack.enter_context(NativeKafka()).bootstrap
    except Unavailable as error:
        print(f"some lines need a broker: {error}", file=sys.stderr)
        return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--bootstrap", default=os.environ.get("CALMSTREAM_TEST_BOOTSTRAP"))
    parser.add_argument("--records", type=int, default=200_000, help="records of one report")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", type=lambda s: s.split(","), default=PARTS, metavar="PART,...")
    args = parser.parse_args()
    if not set(args.only) <= set(PARTS):
        parser.error(f"the parts are {', '.join(PARTS)}")
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    print(
        f"{datetime.now(UTC):%Y-%m-%d}, Python {platform.python_version()}, {os.cpu_count()} "
        f"cores, load {os.getloadavg()[0]:.1f} at the start, best of {args.repeats}\n\n{head()}"
    )
    with ExitStack() as stack:
        for row in rows(args, stack):
            print(row.shown(), flush=True)


if __name__ == "__main__":
    main()
