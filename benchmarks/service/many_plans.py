"""Measure processes that serve many plans: what idle plans cost, and what a plan costs the others.

    python -m benchmarks.service.many_plans [idle] [--bootstrap B] [--plans N] [--groups G]
        [--seconds S]
    python -m benchmarks.service.many_plans fair [--bootstrap B] [--seconds S] [--attributes D]
        [--labels L]

``fair`` is described in ``plans_at_work``.

``idle`` puts N plans of G groups
with one partition each into a folder, creates their topics, and starts one tally worker and one
publisher. It prints, for each process:

- seconds until every plan is served;
- resident memory, threads, open connections, and the share of a core that it needs while no report
  comes, over S seconds;
- then, while every plan gets a batch each second: the longest time for which an acknowledged report
  was not counted, before, while, and after another plan came and went (looks come every 0.3 s); and
  the time from a new file to the first counted report.

Without ``--bootstrap`` the program starts its own Kafka broker. On a given broker it deletes its
topics at the end.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.service import plans_at_work
from benchmarks.service.plans_setting import (
    REPORTS,
    Connection,
    Plans,
    Sender,
    accepted,
    cpu_seconds,
    plan_of,
    resources,
    send,
    start,
)
from calmstream.broker.transport import Broker
from calmstream.consumer.metrics.registry import plan_label
from calmstream.consumer.subscribe.subscribe import plan_names
from calmstream.estimators.plan import Plan
from tests.brokers.native import NativeKafka
from tests.support.service.processes import Process, until

LOOK_SECONDS = 0.3


class Pauses(threading.Thread):
    """Looks at a worker all the time: for how long are acknowledged reports not counted?"""

    def __init__(self, worker: Process, plans: Plans, sender: Sender) -> None:
        super().__init__(daemon=True)
        self._worker = worker
        self._labels = [plan_label(plan) for plan in plans.plans]
        self._sender = sender
        self._delays: list[float] = []

    def longest(self) -> str:
        """Return in words how long reports have waited since the last call."""
        delays, self._delays = self._delays, []
        return f"{max(delays):.1f} s at most, {np.median(delays):.1f} s at half of the looks"

    def run(self) -> None:
        """Look until the process ends."""
        while True:
            time.sleep(LOOK_SECONDS)
            now, counts = time.monotonic(), accepted(self._worker)
            if not counts:
                continue  # the page did not come in time
            rounds = min(int(counts.get(label, 0.0)) // REPORTS for label in self._labels)
            waiting = self._sender.acknowledged[rounds:]
            self._delays.append(max(now - waiting[0], 0.0) if waiting else 0.0)


def main() -> None:
    """Run the measurement."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    kinds = ("idle", "fair")
    parser.add_argument("kind", nargs="?", default="idle", choices=kinds)
    parser.add_argument("--bootstrap")
    parser.add_argument("--plans", type=int, default=100)
    parser.add_argument("--groups", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--attributes", type=int, default=6)
    parser.add_argument("--labels", type=int, default=32)
    options = parser.parse_args()
    with ExitStack() as stack:
        bootstrap = (
            options.bootstrap
            or stack.enter_context(
                NativeKafka(properties={"log.index.size.max.bytes": "65536"})
            ).bootstrap
        )
        if options.kind == "fair":
            plans_at_work.fair(bootstrap, options.seconds, options.attributes, options.labels)
            return
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        plans = tuple(plan_of(f"many-{n:03}", options.groups) for n in range(options.plans))
        measure(stack, bootstrap, Plans(f"many-{os.getpid()}", plans, folder), options.seconds)


def measure(stack: ExitStack, bootstrap: str, plans: Plans, seconds: float) -> None:
    """Measure a run of one worker and one publisher."""
    broker = stack.enter_context(Connection(bootstrap))
    began = time.monotonic()
    plans.put_all(stack, broker)
    print(f"{len(plans.plans)} plans, topics created in {time.monotonic() - began:.0f} s")
    processes = {role: start(stack, bootstrap, plans, role) for role in ("tally", "publish")}
    time.sleep(10)
    before = {role: cpu_seconds(process) for role, process in processes.items()}
    time.sleep(seconds)
    for role, process in processes.items():
        share = (cpu_seconds(process) - before[role]) / seconds
        print(f"{role}: idle {100 * share:.1f} % of a core; {resources(process)}")
    stack.callback(plans.delete_topics, broker, _new_plan(plans))
    come_and_go(broker, plans, processes["tally"])


def come_and_go(broker: Broker, plans: Plans, worker: Process) -> None:
    """Measure what a plan that comes or goes costs the others."""
    sender = Sender(broker, plans, 1.0)
    pauses = Pauses(worker, plans, sender)
    sender.start()
    time.sleep(10)
    pauses.start()
    cpu = cpu_seconds(worker)
    time.sleep(15)
    share = (cpu_seconds(worker) - cpu) / 15
    print(f"reports flow, {100 * share:.0f} % of a core; uncounted for {pauses.longest()}")
    new = _new_plan(plans)
    came = time.monotonic()
    plans.put(new)
    names = plan_names(new, plans.namespace)
    until("the topics of the new plan exist", lambda: _exists(broker, names.state), 60)
    send(sink := broker.sink(), new, plans.namespace)
    until("the new plan is counted", lambda: accepted(worker).get(plan_label(new), 0) > 0, 60)
    print(f"a new plan: first count {time.monotonic() - came:.1f} s after its file appeared")
    time.sleep(5)
    print(f"a plan comes: reports of others uncounted for {pauses.longest()}")
    plans.take(new)
    time.sleep(20)
    print(f"a plan goes: reports of others uncounted for {pauses.longest()}")
    sender.stop()
    sink.close(5)
    total = REPORTS * len(sender.acknowledged)

    def all_counted() -> bool:
        counts = accepted(worker)
        return all(counts.get(plan_label(plan), 0) == total for plan in plans.plans)

    until("every report is counted once", all_counted, 60)
    print(f"all {len(plans.plans) * total:,} reports counted once")


def _new_plan(plans: Plans) -> Plan:
    return replace(plans.plans[0], name="many-new")


def _exists(broker: Broker, topic: str) -> bool:
    topics = broker.topics()
    try:
        return topic in topics.describe([topic])
    finally:
        topics.close()


if __name__ == "__main__":
    main()
