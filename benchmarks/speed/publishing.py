"""Measure how long the publisher takes for a final set of 8,000 tables, and its memory.

    python -m benchmarks.speed.publishing REPEATS [BOOTSTRAP]

prints what `rows` reads. The counts are drawn in another process, so that the memory is that of the
publisher's work; the set is written to Kafka where there is one, else to a broker in memory.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations, islice
from multiprocessing import get_context
from pathlib import Path
from secrets import token_hex

import numpy as np

from benchmarks.speed.rows import Row, best, processor_seconds
from calmstream.broker.in_process import InProcessBroker
from calmstream.broker.kafka import connect
from calmstream.broker.transport import Broker, TopicSpec
from calmstream.common.clock import SystemClock
from calmstream.consumer.publish.build import build_set
from calmstream.consumer.publish.merge import MergedWindow
from calmstream.consumer.publish.set_writer import SetWriter
from calmstream.estimators import methods
from calmstream.estimators.domain import Attribute, Domain
from calmstream.estimators.methods.base import Request
from calmstream.estimators.plan import Plan
from calmstream.estimators.tally import Tally
from calmstream.estimators.wire.snapshot import Kind
from calmstream.estimators.wire.state import WindowCount
from calmstream.evaluation.population import collect, local_plan

USERS = 1 << 17  # number of devices; it decides the noise, not the cost

ATTRIBUTES, TABLES = 128, 8000

SEND_SECONDS = 60.0  # maximum time for the acknowledgements of a set


def plan_of() -> Plan:
    """Return a plan of noise-aware that publishes the first pairs."""
    domain = Domain(
        tuple(Attribute(f"attribute-{i:03d}", ("no", "yes")) for i in range(ATTRIBUTES))
    )
    marginals = tuple(islice(combinations(range(ATTRIBUTES), 2), TABLES))
    plan = local_plan(methods.get("noise-aware"), Request(domain, "1", USERS, 2))
    return replace(plan, marginals=marginals)


def tallies_of() -> Sequence[Tally]:
    """Return drawn counts of devices whose attributes have one common cause."""
    random = np.random.default_rng(1)
    cause = random.normal(size=(USERS, 1)).astype(np.float32)
    field = random.normal(-1.0, 1.0, ATTRIBUTES).astype(np.float32)
    share = 1.0 / (1.0 + np.exp(-(field + 0.8 * cause)))
    codes = (random.random(share.shape, np.float32) < share).astype(np.uint16)
    return collect(plan_of(), codes, np.random.SeedSequence(2), exact=True)


def peak() -> int:
    """Return the largest memory so far, in bytes; `resource` would count the parent's, too."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))


def measure(repeats: int, broker: Broker) -> tuple[float, float, int, int]:
    """Return what the program prints; see the top of this module."""
    plan = plan_of()
    with get_context("spawn").Pool(1) as pool:
        tallies = pool.apply(tallies_of)
    offsets = (1,) * (len(plan.groups) * plan.partitions)
    merged = MergedWindow(0, Kind.FINAL, offsets, tuple(WindowCount(t) for t in tallies))
    name, topics, sink = f"bench-publishing-{token_hex(4)}", broker.topics(), broker.sink()
    topics.create([TopicSpec(name, 1, {"cleanup.policy": "compact"})])
    before = peak()
    try:
        sink.prepare((name,))
        writer = SetWriter(sink, name, SystemClock(), SEND_SECONDS)
        made = build_set(plan, merged)
        whole, writing = best(
            repeats,
            lambda: processor_seconds(lambda: writer.write(build_set(plan, merged))),
            lambda: processor_seconds(lambda: writer.write(made)),
        )
    finally:
        sink.close(5.0)
        topics.delete([name])
    return whole, writing, peak(), before


def rows(repeats: int, bootstrap: str | None) -> Iterator[Row]:
    words = [str(repeats), *([bootstrap] if bootstrap else [])]
    command = [sys.executable, "-m", "benchmarks.speed.publishing", *words]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    whole, writing, after, before = json.loads(done.stdout)
    work = "publish 8,000 tables of 128 bits"
    beside = "to encode and write them"
    yield Row(work, "s", "below 10", whole, writing, beside)
    beside = "before the first set"
    yield Row(f"{work}: memory", "MB", "below 1,000", after / 1e6, before / 1e6, beside)


def main() -> None:
    repeats, *bootstrap = sys.argv[1:]
    broker = connect(bootstrap[0]) if bootstrap else InProcessBroker()
    print(json.dumps(measure(int(repeats), broker)))
    broker.close()


if __name__ == "__main__":
    main()
