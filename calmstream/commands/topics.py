"""``calmstream topics``: create the topics of a plan, or verify the ones that exist."""

from __future__ import annotations

import argparse

from rich.console import Console

from calmstream import arguments
from calmstream.connect import kafka
from calmstream.topics import ensure_topics
from consumer.subscribe.subscribe import plan_names


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
    arguments.add_output_namespace(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Create and verify."""
    plan = arguments.load_plan(args.plan)
    names = plan_names(plan, args.namespace, args.output_namespace)
    broker = kafka(args.bootstrap)
    try:
        created = ensure_topics(broker, plan, names)
    finally:
        broker.close()
    total = len(names.specs(0))
    Console().print(
        f"{len(created)} topics created, {total - len(created)} there before; all verified"
    )
    return 0
