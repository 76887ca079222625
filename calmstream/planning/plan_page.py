"""The output of ``calmstream plan``: the design and its reasons, errors, cost, and warnings."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
from rich.filesize import decimal

from calmstream import read_device_plan
from calmstream.common.errors import InvalidInput, PlanError
from calmstream.estimators.analysis.words import smallest_share
from calmstream.estimators.plan.central_statement import expected_statement
from calmstream.estimators.plan.loss import Loss
from calmstream.estimators.plan.state_size import kept_window_bytes
from calmstream.planning import allowed_loss, findable, over_time
from calmstream.terminal import Console

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rich.table import Table as Grid

    from calmstream.estimators.central.plan import CentralPlan
    from calmstream.estimators.methods.base import Design
    from calmstream.estimators.plan import Plan
    from calmstream.tables.records import RecordTable

RESTORE_BYTES_PER_SECOND = 20 << 20
"""Rate at which a worker restores state from its topic; a cautious value."""

YEAR_SECONDS = 365 * 86_400

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
    """Write the plan to a file and print it with its warnings, as JSON or for people."""
    if out:
        _write(plan, out)
    if as_json:
        document = {"plan": plan.to_json(), "warnings": warnings} | dict(more or {})
        sys.stdout.buffer.write(orjson.dumps(document, option=orjson.OPT_SORT_KEYS) + b"\n")
        return 0
    console = Console()
    show(console)
    for warning in warnings:
        console.print(warning, style="yellow", soft_wrap=True)
    kept = f"written to {out}" if out else "not kept; --out FILE writes it"
    console.print(f"\n{kept}", soft_wrap=True)
    return 0


def over(expires: int, now: float) -> list[str]:
    """Return a warning if the plan has expired; both times are seconds since the epoch."""
    return [_OVER] if expires <= now else []


def warnings(plan: Plan, *, data: RecordTable | None, now: float) -> list[str]:
    """Return what the author should consider before the plan is used, one line each."""
    lines = []
    if data is not None:
        lines += [_LEARNT, *data.warnings]
    lines += over(plan.expires, now)
    lines += over_time.warnings(plan)
    lines += _unreadable(plan)
    if all(len(marginal) < plan.k for marginal in plan.marginals):
        lines.append(f"No table of {plan.k} attributes is published; --marginal A,B,.. adds one")
    return lines


def _unreadable(plan: Plan) -> list[str]:
    """Return a warning if devices refuse the plan because of its cost."""
    try:
        read_device_plan(plan.to_bytes())
    except PlanError as error:
        return [f"Devices refuse it: {error}"]
    return []


def show(console: Console, plan: Plan, promised: Grid) -> None:
    """Print the plan in a few lines: how many reports, how long, how precise, what it costs."""
    console.print(
        f"{plan.name}-{plan.digest[:8]}: {plan.method}, epsilon {plan.epsilon}, "
        f"{plan.guarantee.kind}; {plan.users:,} reports a window",
        style="bold",
    )
    console.print(promised)
    loss = allowed_loss.line(Loss.of(plan))
    for line in filter(None, (over_time.line(plan), loss, findable.short(plan))):
        console.print(line, soft_wrap=True)
    for name in plan.domain.hashed:
        share = 100 * smallest_share(plan, name)
        console.print(
            f"a word of {name} is seen in a window from a share of about {share:.2g} % on"
        )


def explain(console: Console, plan: Plan, design: Design) -> None:
    """Print the reasons of the design, its cost, and expected errors."""
    details = [*_central(plan), *design.reason, _cost(plan), _kept(plan)]
    for line in (*details, *filter(None, [findable.line(plan)])):
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


def _cost(plan: Plan) -> str:
    """Return one line about the topics and the state of the plan."""
    partitions = (len(plan.groups) + 1) * plan.partitions + 3
    state = plan.state_record_bytes * len(plan.groups) * plan.partitions
    return (
        f"{len(plan.groups)} groups: {len(plan.groups) + 4} topics, {partitions} partitions; state "
        f"at most {decimal(state)}, restored in about "
        f"{max(1, round(state / RESTORE_BYTES_PER_SECOND))} s"
    )


def _kept(plan: Plan) -> str:
    """Return one line about the size of the counts topic."""
    per_year = YEAR_SECONDS / plan.window * kept_window_bytes(plan)
    per_plan = plan.windows * kept_window_bytes(plan)
    return (
        "counts kept for calmstream query: about "
        f"{decimal(round(per_year))} a year, {decimal(round(per_plan))} over the whole plan"
    )


def check_new(path: str | None) -> None:
    """Refuse to replace a file: what a plan in use has collected cannot be read without it."""
    if path is not None and Path(path).exists():
        raise InvalidInput(
            f"--out {path}: the file exists, and nothing that its plan collects can be read "
            "without it; choose another name, or move it away"
        )


def _write(plan: Plan | CentralPlan, path: str) -> None:
    """Write the document, indented for people; the digest does not depend on the layout."""
    text = orjson.dumps(plan.to_json(), option=orjson.OPT_INDENT_2) + b"\n"
    try:
        with Path(path).open("xb") as file:
            file.write(text)
    except FileExistsError:
        check_new(path)
    except OSError as error:
        raise InvalidInput(f"{path}: {error.strerror}") from None
