"""DP Marginals in the central model.

Raw records leave their owners: use it only with their agreement.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from calmstream import arguments
from calmstream.broker.names import CentralNames
from calmstream.broker.topic_facts import central_faults, refuse
from calmstream.common.clock import SystemClock
from calmstream.common.errors import InvalidInput
from calmstream.common.health import RoleHealth
from calmstream.common.settings import load
from calmstream.common.version import version
from calmstream.connect import opened
from calmstream.consumer.central.aggregator import Aggregator
from calmstream.consumer.central.budget_account import BudgetAccount
from calmstream.consumer.central.config import AggregatorConfig, AggregatorContext
from calmstream.consumer.central.metrics import central_metrics
from calmstream.consumer.central.subscribe import subscribe_releases
from calmstream.consumer.runtime.service import Alone, configure_logging
from calmstream.estimators.central.plan import CentralPlan
from calmstream.estimators.central.release_reading import CentralRelease
from calmstream.estimators.marginal import Z95
from calmstream.estimators.randomness import SystemRandomness
from calmstream.output import say
from calmstream.pages.watch import span
from calmstream.planning import central_plan
from calmstream.process import Process
from calmstream.producer.central.submit import submit
from calmstream.tables.records import read_texts

MAX_ROWS = 20  # number of tuples of one size that are shown, the largest first


def add(parser: argparse.ArgumentParser) -> None:
    steps = parser.add_subparsers(title="commands", metavar="STEP", required=True)
    made = steps.add_parser(
        "plan",
        help="make a plan",
        description="Make a plan: a trusted aggregator counts tuples of up to K columns of raw "
        "records, adds noise, and releases them after every window.",
    )
    central_plan.add_options(made)
    made.set_defaults(run=central_plan.run)
    once = "create the account of the privacy budget, once per plan"
    account = _step(steps, "account", _account, once, broker=False)
    _add_account(account)
    _step(steps, "topics", _topics, "create and verify the topics")
    aggregate = _step(steps, "aggregate", _aggregate, "run the aggregator")
    _add_account(aggregate)
    arguments.add(aggregate, *arguments.HTTP)
    send = _step(steps, "submit", _submit, "send the raw records of a table")
    send.add_argument(
        "--records", required=True, metavar="DATA", help="table of records: .csv or .csv.gz"
    )
    send.add_argument(
        "--user-column", help="column with the user's id (default: each row is a user)"
    )
    look = _step(steps, "watch", _watch, "show releases")
    look.add_argument("--marginal", type=arguments.names, metavar="A,B", help="only this marginal")
    arguments.add(look, "--once")


def _step(
    steps: Any,
    name: str,
    run: Callable[[argparse.Namespace, CentralPlan], int],
    text: str,
    *,
    broker: bool = True,
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = steps.add_parser(
        name, help=text, description=f"{text[0].upper()}{text[1:]}."
    )
    arguments.add(parser, "--plan", *(arguments.BROKER if broker else ()))
    parser.set_defaults(run=lambda args: run(args, arguments.load_central_plan(args.plan)))
    return parser


def _add_account(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--account", required=True, type=Path, metavar="FILE", help="file of the budget's account"
    )


def names_of(plan: CentralPlan, namespace: str) -> CentralNames:
    return CentralNames(namespace, plan.name, plan.digest, plan.partitions)


def _account(args: argparse.Namespace, plan: CentralPlan) -> int:
    ledger = BudgetAccount(args.account, plan).create()
    say(f"{args.account}: {ledger.summary()}")
    return 0


def _topics(args: argparse.Namespace, plan: CentralPlan) -> int:
    names = names_of(plan, args.namespace)
    with opened(args) as broker:
        topics = broker.topics()
        created = topics.create(names.specs(plan.window * 1000))
        refuse(central_faults(names, topics.describe([names.raw, names.releases])))
    say(f"{len(created)} topics created, {2 - len(created)} there before; verified")
    return 0


def _aggregate(args: argparse.Namespace, plan: CentralPlan) -> int:
    account = BudgetAccount(args.account, plan)
    account.read()
    config = load(AggregatorConfig)
    process = Process(args)
    with opened(args) as broker:
        context = AggregatorContext(
            plan,
            names_of(plan, args.namespace),
            broker,
            account,
            clock := SystemClock(),
            SystemRandomness(),
            central_metrics(process.registry, plan),
            RoleHealth(Aggregator.name, clock),
            version(),
        )
        process.run(Alone(Aggregator(context, config), until_over=True))
    return 0


def _submit(args: argparse.Namespace, plan: CentralPlan) -> int:
    wanted = [*plan.columns, *([args.user_column] if args.user_column else [])]
    table = read_texts(args.records, wanted)
    rows = len(table[plan.columns[0]])
    users = table[args.user_column] if args.user_column else [f"row {i}" for i in range(rows)]
    with opened(args) as broker:
        sent = submit(
            plan,
            broker,
            names_of(plan, args.namespace),
            users,
            [table[name] for name in plan.columns],
        )
    left = f"; {rows - sent:,} without a user's id left out" if sent < rows else ""
    say(f"{sent:,} raw records submitted{left}")
    return 0


def _watch(args: argparse.Namespace, plan: CentralPlan) -> int:
    configure_logging(os.environ.get("CALMSTREAM_LOG_LEVEL", "warning"))
    wanted = args.marginal or ()
    if len(wanted) > plan.levels or not set(wanted) <= set(plan.columns):
        raise InvalidInput(f"--marginal: expected up to {plan.levels} of {', '.join(plan.columns)}")
    with opened(args) as broker:
        names = names_of(plan, args.namespace)
        for release in subscribe_releases(broker, names, follow=not args.once):
            say(*lines(release, args.marginal))
    return 0


def lines(release: CentralRelease, marginal: Sequence[str] | None = None) -> Iterator[str]:
    m = release.manifest
    yield (
        f"{m['name']} · window {m['window']} · {span(m['start'], m['end'])} · "
        "central model, dp-marginals"
    )
    yield (
        f"epsilon {m['epsilon']}, delta {m['delta']} over all {m['releases']:,} releases; "
        f"spent so far: {m['spent']}"
    )
    if m.get("sample", "1") != "1":
        yield f"a sample: {m['sample']} of the users count"
    for k in m["levels"]:
        level = release.levels[k]
        found = sorted(_tuples(level, marginal), key=lambda item: -item[1])
        if marginal is not None and not found:
            continue
        margin = Z95 * level["stderr"]
        spurious = level["spurious_bound"]
        yield (
            f"{k}-tuples: {len(found):,} with counts above {level['threshold']}; at most "
            f"{level['limit']} of a user counted; at most {spurious:.2g} expected to be spurious"
        )
        if level.get("extended_above") is not None:
            yield f"  made from {k - 1}-tuples with counts above {level['extended_above']} alone"
        shown = found if marginal is not None else found[:MAX_ROWS]
        for text, count in shown:
            yield f"  {count:>12,} ± {margin:,.0f}  {text}"
        if len(shown) < len(found):
            yield f"  and {len(found) - len(shown):,} smaller ones"
    yield ""


def _tuples(level: dict[str, Any], marginal: Sequence[str] | None) -> Iterator[tuple[str, int]]:
    for table in level["tables"]:
        names = table["attributes"]
        if marginal is not None and set(marginal) != set(names):
            continue
        for *values, count in zip(*table["values"], table["counts"], strict=True):
            pairs = (f"{n}={v}" for n, v in zip(names, values, strict=True))
            yield ", ".join(pairs), count
