"""Create the topics that are missing, and check the ones that exist.

They get the settings that correctness needs. With --plans, once for each plan of the folder.
"""

from __future__ import annotations

import argparse

from calmstream import arguments
from calmstream.broker.topic_facts import ensure_topics
from calmstream.common.errors import FatalError
from calmstream.connect import names_of, opened
from calmstream.consumer.metrics.registry import plan_label
from calmstream.output import say
from calmstream.service import accepted_plans, noted


def add(parser: argparse.ArgumentParser) -> None:
    arguments.add_plans(parser, watched=False)


def run(args: argparse.Namespace) -> int:
    plans, failed = accepted_plans(args)
    with opened(args) as broker:
        for plan in (one.plan for one in plans):
            names = names_of(args, plan)
            with noted(args, plan, failed):
                created = ensure_topics(broker, plan, names)
                before = len(names.specs(0)) - len(created)
                done = f"{len(created)} topics created, {before} there before; all verified"
                say(done if args.plans is None else f"{plan_label(plan)}: {done}")
    if failed:
        say(*(f"{name}: {why}" for name, why in failed.items()))
        raise FatalError(
            f"plans and refused files without topics: {len(failed)}; run it again when they are "
            "repaired"
        )
    return 0
