"""Show the progress of counting and publishing as of the last checkpoints.

Reads the plan's topics once, joins no consumer group and writes nothing.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from calmstream import arguments
from calmstream.common.clock import SystemClock, utc
from calmstream.connect import names_of, opened
from calmstream.consumer.operations.inspect import Inspection, inspect
from calmstream.estimators.plan import Plan
from calmstream.output import say_json
from calmstream.terminal import Console, grid


def add(parser: argparse.ArgumentParser) -> None:
    arguments.add(parser, *arguments.RESULTS, "--json")


def run(args: argparse.Namespace) -> int:
    """Read and show; exit code 1 if a worker would refuse a partition or a topic."""
    plan = arguments.load_plan(args.plan)
    with opened(args) as broker:
        found = inspect(plan, broker, names_of(args, plan), SystemClock())
    if args.json:
        say_json(document(plan, found))
    else:
        show(plan, found, Console())
    return int(bool(found.faults) or any(partition.trouble for partition in found.partitions))


def document(plan: Plan, found: Inspection) -> dict[str, Any]:
    """Return the result as JSON; times are seconds since the epoch, null without any record."""
    partitions = [
        asdict(p)
        | {"lag": p.lag, "trouble": p.trouble, "clock": p.clock / 1000 if p.clock else None}
        for p in found.partitions
    ]
    return {
        "plan": plan.digest,
        "name": plan.name,
        "lag": found.lag,
        "windows": asdict(found.windows),
        "rejected": found.rejected,
        "dead_letters": found.dead_letters,
        "faults": found.faults,
        "partitions": partitions,
    }


def show(plan: Plan, found: Inspection, console: Console) -> None:
    windows = found.windows
    console.print(
        f"{plan.name}-{plan.digest[:8]}: {found.lag:,} records behind · "
        f"{windows.planned:,} windows planned, {windows.closed_everywhere:,} closed in every "
        f"partition, {windows.final:,} final, {windows.kept:,} with counts kept"
    )
    columns = ("group", "partition", "log", "counted to", "lag", "clock", "closed", "open")
    table = grid(right=columns)
    for p in found.partitions:
        table.add_row(
            str(p.group),
            str(p.partition),
            f"{p.log_start:,}–{p.log_end:,}",
            f"{p.next_offset:,}",
            f"{p.lag:,}",
            utc(p.clock // 1000) if p.clock else "-",
            f"{p.closed_through + 1:,}",
            ", ".join(map(str, p.open_windows)) or "-",
        )
    console.print(table)
    rejected = ", ".join(f"{reason} {count:,}" for reason, count in found.rejected.items())
    console.print(f"rejected: {rejected or 'nothing'} · {found.dead_letters:,} dead letters kept")
    troubles = (
        f"group {p.group} partition {p.partition}: {p.trouble}; workers stop here"
        for p in found.partitions
        if p.trouble
    )
    for trouble in (*troubles, *found.faults):
        console.print(trouble, style="red", soft_wrap=True)
