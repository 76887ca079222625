"""Measure what idle plans cost: one tally worker and one publisher that serve many.

    python -m benchmarks.service.many_plans [--bootstrap B] [--plans N] [--groups G] [--seconds S]

Prints for each process the seconds until every plan is served, and its memory, threads, open
connections and share of a core while no report comes. Without ``--bootstrap`` the program starts a
Kafka broker of its own; on a given one it deletes its topics at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from contextlib import ExitStack, closing
from pathlib import Path

from calmstream.broker.kafka import connect
from calmstream.broker.topic_facts import ensure_topics
from calmstream.consumer.subscribe.subscribe import plan_names
from calmstream.estimators.plan import Plan
from tests.brokers.native import NativeKafka
from tests.support.plans import PAIR_GROUP, pair_plan
from tests.support.service.processes import Process, until

SERVED_SECONDS = 600.0


def plan_of(name: str, groups: int) -> Plan:
    """Return a plan of windows of ten minutes."""
    start = int(time.time()) // 600 * 600 - 600
    of = {"purpose": "benchmark", "owner": "benchmark", "groups": (PAIR_GROUP,) * groups}
    return pair_plan(name, start, window=600, windows=144, **of)


def served(process: Process, number: int) -> bool:
    """Return whether every plan is well in all roles."""
    body = process.page("/readyz", accept="application/json")[1]
    if not body:
        return False
    roles = [role["plans"] for name, role in json.loads(body)["roles"].items() if name != "plans"]
    return all(
        len(plans) == number
        and all(plan["well"] and plan["detail"] == "ready" for plan in plans.values())
        for plans in roles
    )


def cpu_seconds(process: Process) -> float:
    """Return the processor time of a process."""
    fields = Path(f"/proc/{process.child.pid}/stat").read_text().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resources(process: Process) -> str:
    """Return memory, threads and connections of a process in words."""
    around = Path(f"/proc/{process.child.pid}")
    lines = (around / "status").read_text().splitlines()
    values = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    links = [str(link.readlink()) for link in (around / "fd").iterdir() if link.is_symlink()]
    sockets = sum(link.startswith("socket:") for link in links)
    megabytes = int(values["VmRSS"].split()[0]) / 1024
    return f"{megabytes:.0f} MB, {values['Threads'].strip()} threads, {sockets} sockets"


def started(stack: ExitStack, role: str, folder: Path, number: int, *where: str) -> Process:
    """Start a process over the folder, and wait until it serves every plan."""
    began = time.monotonic()
    options = ("consume", "--plans", folder, "--allow-unsigned", "--role", role)
    process = Process(folder.with_name(f"{role}.log"), *options, *where)
    stack.callback(process.kill)
    until(f"{role} serves all plans", lambda: served(process, number), SERVED_SECONDS, 0.5)
    cpu = cpu_seconds(process)
    print(f"{role}: all served after {time.monotonic() - began:.1f} s, {cpu:.1f} s of CPU")
    return process


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bootstrap")
    parser.add_argument("--plans", type=int, default=100)
    parser.add_argument("--groups", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=60.0)
    args = parser.parse_args()
    with ExitStack() as stack:
        kafka = NativeKafka(properties={"log.index.size.max.bytes": "65536"})
        bootstrap = args.bootstrap or stack.enter_context(kafka).bootstrap
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "plans"
        folder.mkdir()
        broker = stack.enter_context(closing(connect(bootstrap)))
        topics = stack.enter_context(closing(broker.topics()))
        namespace = f"many-{os.getpid()}"
        for number in range(args.plans):
            plan = plan_of(f"many-{number:03}", args.groups)
            names = plan_names(plan, namespace)
            stack.callback(topics.delete, [spec.name for spec in names.specs(0)])
            ensure_topics(broker, plan, names)
            (folder / f"{plan.name}.json").write_bytes(plan.to_bytes())
        where = ("--bootstrap", bootstrap, "--namespace", namespace)
        running = {
            role: started(stack, role, folder, args.plans, *where) for role in ("tally", "publish")
        }
        time.sleep(10)
        before = {role: cpu_seconds(process) for role, process in running.items()}
        time.sleep(args.seconds)
        for role, process in running.items():
            share = (cpu_seconds(process) - before[role]) / args.seconds
            print(f"{role}: idle {100 * share:.1f} % of a core; {resources(process)}")


if __name__ == "__main__":
    main()
