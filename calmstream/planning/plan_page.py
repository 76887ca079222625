"""The output of ``calmstream plan``: the design and its reasons, errors, cost, and warnings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import orjson
from rich.filesize import decimal
from rich.table import Table as Grid

from calmstream import read_device_plan
from calmstream.arguments import write_file
from calmstream.common.errors import InvalidInput, PlanError
from calmstream.estimators.analysis.words import smallest_share
from calmstream.estimators.central.plan import CentralPlan
from calmstream.estimators.changes.compare import ALPHA, MAX_CELLS
from calmstream.estimators.changes.power import planned_views, smallest_shift
from calmstream.estimators.methods.base import Design
from calmstream.estimators.plan import Plan
from calmstream.estimators.plan.central_statement import expected_statement
from calmstream.estimators.plan.loss import Loss
from calmstream.estimators.plan.state_size import kept_window_bytes, record_bytes
from calmstream.output import say_json
from calmstream.planning import allowed_loss, over_time
from calmstream.tables.records import RecordTable
from calmstream.terminal import Console

RESTORE_BYTES_PER_SECOND = 20 << 20  # of a worker; a cautious value

_LEARNT = (
    "The labels were learnt from data. If that data is private, a published plan reveals them: "
    "review the domain, or write a data dictionary."
)
_OVER = "The plan has expired already: no device will report under it."


def deliver(
    plan: Plan | CentralPlan,
    warnings: Sequence[str],
    show: Callable[[Console], None],
    *,
    out: str | None,
    as_json: bool,
    more: Mapping[str, Any] | None = None,
) -> int:
    if out:
        # Indented for people; the digest does not depend on the layout.
        write_file(out, orjson.dumps(plan.to_json(), option=orjson.OPT_INDENT_2) + b"\n")
    if as_json:
        document = {"plan": plan.to_json(), "warnings": warnings} | dict(more or {})
        say_json(document, option=orjson.OPT_SORT_KEYS)
        return 0
    console = Console()
    show(console)
    for warning in warnings:
        console.print(warning, style="yellow", soft_wrap=not console.is_terminal)
    kept = f"written to {out}" if out else "not kept; --out FILE writes it"
    console.print(f"\n{kept}", soft_wrap=True)
    return 0


def over(expires: int, now: float) -> list[str]:
    return [_OVER] if expires <= now else []


def warnings(plan: Plan, *, data: RecordTable | None, now: float) -> list[str]:
    lines = [] if data is None else [_LEARNT, *data.warnings]
    lines += [*over(plan.expires, now), *over_time.warnings(plan), *_unreadable(plan)]
    if all(len(marginal) < plan.k for marginal in plan.marginals):
        lines.append(f"No table of {plan.k} attributes is published; --marginal A,B,.. adds one")
    return lines


def _unreadable(plan: Plan) -> list[str]:
    try:
        read_device_plan(plan.to_bytes())
    except PlanError as error:
        return [f"Devices refuse it: {error}"]
    return []


def show(console: Console, plan: Plan, promised: Grid) -> None:
    console.print(
        f"{plan.name}-{plan.digest[:8]}: {plan.method}, epsilon {plan.epsilon}, "
        f"{plan.guarantee.kind}; {plan.users:,} reports a window",
        style="bold",
    )
    console.print(promised)
    loss = allowed_loss.line(Loss.of(plan))
    for line in filter(None, (over_time.line(plan), loss, change_line(plan))):
        console.print(line, soft_wrap=True)
    for name in plan.domain.hashed:
        share = 100 * smallest_share(plan, name)
        console.print(
            f"a word of {name} is seen in a window from a share of about {share:.2g} % on"
        )


def explain(console: Console, plan: Plan, design: Design) -> None:
    for line in (*_central(plan), *design.reason, *_cost(plan)):
        console.print(f"- {line}", soft_wrap=True)


def _central(plan: Plan) -> list[str]:
    """Return what readers of a final learn of a device; nothing where early sets are published."""
    if plan.early:
        return []
    found = expected_statement(plan)
    if found is None:
        return ["central statement: none; too few reports are expected"]
    return [
        "central statement of a final, against readers of snapshots only: epsilon "
        f"{found.epsilon:g} with delta {found.delta:.1g}, for {found.n:,} honest reports; assumes: "
        + "; ".join(found.assumes)
    ]


def _cost(plan: Plan) -> tuple[str, str]:
    partitions = (len(plan.groups) + 1) * plan.partitions + 3
    state = record_bytes(plan) * len(plan.groups) * plan.partitions
    restored = max(1, round(state / RESTORE_BYTES_PER_SECOND))
    kept = round(plan.windows * kept_window_bytes(plan))
    groups = len(plan.groups)
    topics = (
        f"{groups} groups: {groups + 4} topics, {partitions} partitions; state at most "
        f"{decimal(state)}, restored in about {restored} s"
    )
    return topics, f"counts kept for calmstream query: about {decimal(kept)} over the whole plan"


def check_new(path: str | None) -> None:
    """Refuse to replace a file: what a plan in use has collected cannot be read without it."""
    if path is not None and Path(path).exists():
        raise InvalidInput(
            f"--out {path}: the file exists, and nothing that its plan collects can be read "
            "without it; choose another name, or move it away"
        )


_TABLES = 9  # most tables of a size that are computed; they are spread over all of them


def smallest_changes(plan: Plan) -> dict[int, list[float]]:
    """Return by number of attributes the smallest shifts between two full windows that are found.

    With probability `power.POWER`, at the level of the alert over the number of tables.
    """
    views = planned_views(plan, plan.users)
    level = ALPHA / len(plan.marginals)
    by_size: dict[int, list[float]] = {}
    for size in (1, 2):
        tables = [m for m in plan.marginals if len(m) == size and plan.domain.size(m) <= MAX_CELLS]
        for target in tables[:: max(1, -(-len(tables) // _TABLES))]:
            found = smallest_shift(views, plan.domain, target, level)
            if found is not None:
                by_size.setdefault(size, []).append(found)
    return by_size


def change_line(plan: Plan) -> str | None:
    """Return one line about what calmstream changes finds; None where nothing is tested."""
    words = {1: "one attribute", 2: "a pair"}
    parts = ", ".join(
        f"{_points(median(shifts))} in {words[size]}"
        for size, shifts in smallest_changes(plan).items()
    )
    return f"a change is found from so many points: {parts}" if parts else None


def _points(shift: float) -> str:
    return "more than 100" if shift >= 1.0 else f"{100 * shift:.2g}"
