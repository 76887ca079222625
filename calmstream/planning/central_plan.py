"""``calmstream plan --model central``: a plan for raw records and a trusted aggregator."""

from __future__ import annotations

import argparse
import time
from typing import Any

from rich.filesize import decimal

from calmstream.arguments import DEFAULT_METHOD
from calmstream.common.errors import InvalidInput, PlanError
from calmstream.estimators.central.accounting import epsilon_of
from calmstream.estimators.central.coding import most_raw_bytes
from calmstream.estimators.central.dp_marginals import check_allocation
from calmstream.estimators.central.plan import CentralPlan
from calmstream.estimators.methods import CENTRAL
from calmstream.estimators.plan import Guarantee
from calmstream.planning import plan_page
from calmstream.tables import read_texts
from calmstream.terminal import Console

LOCAL_OPTIONS: dict[str, Any] = {
    "parameters": {},
    "marginal": None,
    "guarantee": Guarantee("once"),
    "grace": None,
    "skew": None,
    "lineage": None,
    "lineage_epsilon": "",
    "lineage_name": "",
    "root": None,
    "continues": (),
    "analyse": False,
    "on_suspicion": "flag",
    "early": True,
    "summaries": [],
    "number": [],
    "ordered": [],
    "choices": [],
    "pilot": None,
    "allow_loss": None,
}
"""Options of ``calmstream plan`` that a central plan does not have, with their defaults."""

DEFAULTS = {"delta": "1e-6", "quantile": "0.99", "spurious": "0.01", "sample": "1"}
"""Options that only a central plan has, with their defaults."""

_RAW = "Raw records reach the aggregator and its topic: this is not local privacy."


def refuse_options(args: argparse.Namespace) -> None:
    """Refuse options that only a central plan has, for a local plan."""
    for name in (*DEFAULTS, "seen_only"):
        if getattr(args, name) not in (None, False):
            option = f"--{name.replace('_', '-')}"
            raise InvalidInput(f"{option}: only plans with --model central have this option")


def run(args: argparse.Namespace) -> int:
    """Write the plan and show its cost and its loss."""
    if args.method not in (DEFAULT_METHOD, CENTRAL):
        raise PlanError(f"method {args.method} is local: the central model has {CENTRAL} only")
    for name, absent in LOCAL_OPTIONS.items():
        if getattr(args, name) != absent:
            # An option without effect must not be accepted silently.
            raise InvalidInput(f"--{name.replace('_', '-')}: a central plan has no such option")
    window = args.window
    if args.lifetime < window:
        raise InvalidInput(f"--lifetime: {args.lifetime:,} s are less than a window, {window:,} s")
    start = args.start if args.start is not None else int(time.time()) // window * window
    given = {name: getattr(args, name) for name in DEFAULTS}
    own = DEFAULTS | {name: value for name, value in given.items() if value is not None}
    plan = CentralPlan(
        name=args.name,
        purpose=args.purpose,
        owner=args.owner,
        columns=_columns(args),
        epsilon=args.epsilon,
        levels=args.k,
        start=start,
        window=window,
        releases=args.lifetime // window,
        partitions=args.partitions,
        seen_only=args.seen_only,
        users=0 if args.sample is None else args.users,
        **own,
    )
    check_allocation(plan.allocation)
    warnings = [_RAW, *plan_page.over(start + plan.releases * window, time.time())]
    return plan_page.deliver(
        plan, warnings, lambda console: show(console, plan), out=args.out, as_json=args.json
    )


def show(console: Console, plan: CentralPlan) -> None:
    """Print the plan for people, beginning with the model."""
    allocation = plan.allocation
    deviation = float(allocation.variance) ** 0.5
    one = float(epsilon_of(allocation.cost.rho, plan.delta))
    head = (
        f"[bold]CENTRAL[/] plan {plan.name}-{plan.digest[:8]}: dp-marginals, tuples of up to "
        f"{plan.levels} of {len(plan.columns)} columns"
    )
    loss = (
        f"  epsilon {plan.epsilon}, delta {plan.delta} for a user over all {plan.releases:,} "
        f"releases; one release alone is worth epsilon {one:.3g}"
    )
    lines = (
        head,
        loss,
        f"  counts have a standard error of {deviation:.3g} · sqrt(tuples that count of a user)",
        *_sampled(plan),
        "  next: calmstream central account (the budget, once), topics, aggregate, submit, watch",
    )
    for line in lines:
        console.print(line, highlight=False, soft_wrap=True)


def _sampled(plan: CentralPlan) -> tuple[str, ...]:
    """Return the line about the plan's users, if the plan states them."""
    if not plan.users:
        return ()
    line = (
        f"  a share of {plan.sample} of the users of a window counts, of at most {plan.users:,}: "
        f"their raw records take up to {decimal(most_raw_bytes(plan))} of the aggregator's memory"
    )
    return (line,)


def _columns(args: argparse.Namespace) -> tuple[str, ...]:
    """Return the column names; values are learnt later, with noise."""
    if args.columns:
        return tuple(args.columns)
    if args.data.endswith(".json"):
        raise InvalidInput(f"{args.data}: a central plan takes the columns of a CSV, or --columns")
    return tuple(read_texts(args.data))[: args.attributes]
