"""Show windows, reports, lag, the last final and the health of every plan, one line each.

Reads the topics once and asks who works. Joins no consumer group and writes nothing. Exit code 1 if
a plan has a fault or cannot be read, finals are late, or devices refuse it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rich.text import Text

from calmstream import arguments
from calmstream.broker.names import shared_group
from calmstream.broker.shared.broker import SharedBroker
from calmstream.common.clock import SystemClock, utc
from calmstream.connect import names_of, opened
from calmstream.consumer.operations.status import PlanStatus, statuses
from calmstream.output import say_json
from calmstream.producer.signed.certificate import Statement
from calmstream.service import accepted_plans
from calmstream.terminal import Console, grid

COLOURS = {"well": "green", "late": "yellow", "fault": "red", "refused": "red"}
RUNNING = ("well", "not started")


def add(parser: argparse.ArgumentParser) -> None:
    arguments.add_plans(parser, watched=False)
    arguments.add(parser, "--json")


def run(args: argparse.Namespace) -> int:
    plans, refused = accepted_plans(args)
    clock = SystemClock()
    group = shared_group(args.output_namespace or args.namespace, "tally")
    with opened(args) as broker:
        shared = SharedBroker(broker, group, clock)
        asked = [(one.plan, names_of(args, one.plan)) for one in plans]
        found = [
            signed(status, one.statement, clock.now_ms() // 1000)
            for one, status in zip(plans, statuses(asked, shared, clock), strict=True)
        ]
        shared.close(1.0)
    if args.json:
        files = ({"file": f, "health": "refused", "reason": why} for f, why in refused.items())
        say_json(*map(document, found), *files)
    else:
        show(found, refused, Console())
    return int(bool(refused) or any(status.health in COLOURS.keys() - {"well"} for status in found))


def signed(status: PlanStatus, statement: Statement | None, second: int) -> PlanStatus:
    """Return the state of a plan, which is not well while devices refuse its signature."""
    if statement is None or statement.valid_at(second) or status.health not in RUNNING:
        return status
    ended = utc(statement.not_after)
    reason = f"devices refuse it: its signing certificate ended at {ended}; sign it again"
    return replace(status, health="refused", reason=reason)


def document(status: PlanStatus) -> dict[str, Any]:
    """Return what ``--json`` prints about a plan; null for what could not be read."""
    numbers = ("final", "last_final", "reports", "rejected", "lag")
    return {
        "plan": status.plan.name,
        "digest": status.plan.digest,
        "health": status.health,
        "reason": status.reason,
        "windows": status.plan.windows,
        "due": status.due,
        **{name: None if status.unread else getattr(status, name) for name in numbers},
    }


def show(found: Sequence[PlanStatus], refused: dict[str, str], console: Console) -> None:
    table = grid("plan", right=("final", "reports", "rejected", "lag", "last final", "health"))
    for status in found:
        colour = COLOURS.get(status.health, "dim")
        numbers = (
            f"{status.final}/{status.plan.windows}",
            f"{status.reports:,}",
            f"{status.rejected:,}",
            f"{status.lag:,}",
            _ago(status.last_final),
        )
        shown = ("-",) * len(numbers) if status.unread else numbers
        table.add_row(status.plan.name, *shown, Text(status.health, colour))
    console.print(table)
    reasons = [*((s.plan.name, s.reason) for s in found if s.reason), *refused.items()]
    if reasons:
        console.print()
    for name, why in reasons:
        console.print(f"{name}: {why}", style="red")


def _ago(seconds: int | None) -> str:
    if seconds is None:
        return "-"
    since = max(int(time.time()) - seconds, 0)
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if since >= 2 * size:
            return f"{since // size} {unit} ago"
    return f"{since} s ago"
