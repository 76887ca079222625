"""``calmstream topics``: create the topics of a plan, or verify the ones that exist."""

from __future__ import annotations

import argparse

from rich.console import Console

from broker import kafka
from broker.names import TopicNames
from broker.transport import Broker
from calmstream import arguments
from estimators.plan import Plan

FREEZE_MS = 3_600_000
COMPACTION_MS = 86_400_000


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = commands.add_parser(
        "topics",
        help="create the plan's topics, or verify them",
        description="Create the topics that are missing, with the settings that correctness needs, "
        "and check the ones that exist.",
    )
    arguments.add_plan(parser)
    arguments.add_broker(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Create and verify."""
    plan = arguments.load_plan(args.plan)
    names = topic_names(plan, args.namespace)
    broker = kafka.connect(args.bootstrap)
    try:
        created = ensure(broker, plan, names)
    finally:
        broker.close()
    total = len(names.specs(0))
    Console().print(
        f"{len(created)} topics created, {total - len(created)} there before; all verified"
    )
    return 0


def topic_names(plan: Plan, namespace: str) -> TopicNames:
    """The plan's topics in a namespace."""
    return TopicNames(namespace, plan.name, plan.digest, len(plan.groups), plan.partitions)


def input_retention_ms(plan: Plan) -> int:
    """How long reports are kept: DESIGN's sum, doubled, and at least a week."""
    needed = 1000 * (plan.window + plan.grace + plan.skew) + FREEZE_MS + COMPACTION_MS
    return max(7 * 86_400_000, 2 * needed)


def ensure(broker: Broker, plan: Plan, names: TopicNames) -> list[str]:
    """Create what is missing, verify everything; the names that were created."""
    topics = broker.topics()
    try:
        created = topics.create(names.specs(input_retention_ms(plan)))
        names.verify(topics.describe([spec.name for spec in names.specs(0)]))
    finally:
        topics.close()
    return created
