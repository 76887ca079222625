"""``calmstream topics``: create the topics of a plan, or verify the ones that exist."""

from __future__ import annotations

import argparse
from contextlib import closing

from calmstream import arguments
from calmstream.broker.topic_facts import ensure_topics
from calmstream.broker.transport import Broker
from calmstream.common.errors import CalmstreamError, FatalError, RecoverableError
from calmstream.connect import kafka
from calmstream.consumer.metrics.registry import plan_label
from calmstream.consumer.subscribe.subscribe import plan_names
from calmstream.estimators.plan import Plan
from calmstream.terminal import Console


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Create the topics that are missing, with the settings that correctness needs, "
        "and check the ones that exist. With --plans, once for each plan of the folder."
    )
    arguments.add_plans(parser, watched=False)
    arguments.add_broker(parser)
    arguments.add_output_namespace(parser)


def run(args: argparse.Namespace) -> int:
    arguments.check_plans(args)
    if args.plans is None:
        plan = arguments.load_plan(args.plan)
        with closing(kafka(args.bootstrap)) as broker:
            Console().print(_ensure(args, plan, broker))
        return 0
    return _ensure_all(args)


def _ensure(args: argparse.Namespace, plan: Plan, broker: Broker) -> str:
    """Create and verify the topics of a plan; return what was done."""
    names = plan_names(plan, args.namespace, args.output_namespace)
    created = ensure_topics(broker, plan, names)
    total = len(names.specs(0))
    return f"{len(created)} topics created, {total - len(created)} there before; all verified"


def _ensure_all(args: argparse.Namespace) -> int:
    """Create and verify the topics of every plan of a folder."""
    from calmstream.service import listed_plans

    plans, failed = listed_plans(args)
    console, broker = Console(), kafka(args.bootstrap)
    try:
        for plan in plans:
            try:
                done = _ensure(args, plan, broker)
            except RecoverableError:
                raise
            except CalmstreamError as error:
                failed[plan_label(plan)] = str(error)
            else:
                console.print(f"{plan_label(plan)}: {done}")
    finally:
        broker.close()
    for name, why in failed.items():
        console.print(f"{name}: {why}", style="red")
    if failed:
        raise FatalError(
            f"plans and refused files without topics: {len(failed)}; run it again when they are "
            "repaired"
        )
    return 0
