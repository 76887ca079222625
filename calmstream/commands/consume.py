"""Run the service until SIGTERM or SIGINT.

It then writes a checkpoint, leaves its group and exits with 0. Any number of tally workers share
the load; one publisher at a time is active. With --plans a fault of one plan stops only this plan;
it is tried again. CALMSTREAM_* variables hold further settings.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

from calmstream import arguments
from calmstream.common.errors import InvalidInput
from calmstream.common.settings import load
from calmstream.connect import opened
from calmstream.consumer.publish.config import PublisherConfig
from calmstream.consumer.runtime.config import TallyConfig
from calmstream.estimators.plan import Plan
from calmstream.process import Process
from calmstream.service import Service, fetch_limits, served_plans


def add(parser: argparse.ArgumentParser) -> None:
    arguments.add_plans(parser)
    parser.add_argument(
        "--create-topics",
        action="store_true",
        help="with --plans: create the missing topics of a plan that appears",
    )
    parser.add_argument(
        "--role", choices=("tally", "publish", "all"), default="all", help="default: %(default)s"
    )
    parser.add_argument(
        "--grace",
        type=arguments.positive,
        metavar="SECONDS",
        help="with --output-namespace: count again, with so much time for late reports",
    )
    parser.add_argument(
        "--checkpoint-seconds", type=float, help="time between checkpoints (default: 5)"
    )
    parser.add_argument("--refresh-seconds", type=float, help="time between early snapshots")
    arguments.add(parser, *arguments.HTTP)


def run(args: argparse.Namespace) -> int:
    tally = load(TallyConfig, checkpoint_seconds=args.checkpoint_seconds)
    publish = load(PublisherConfig, refresh_seconds=args.refresh_seconds)
    process = Process(args)
    if args.plans is None and args.create_topics:
        raise InvalidInput("--create-topics goes with --plans DIR")
    plans = served_plans(args, process.registry, publishes=args.role != "tally")
    if args.grace is not None:
        if not (isinstance(plans, Plan) and args.output_namespace):
            raise InvalidInput("--grace goes with --plan FILE and --output-namespace NS")
        note = f"windows waited {args.grace} s for late reports, not {plans.grace} s"
        plans, publish = plans.counted_with(args.grace), replace(publish, note=note)
    # One session for both sides: the group gives a silent member's partitions away when the member
    # itself stops writing.
    limits = {"session_seconds": tally.session_seconds, **fetch_limits(args)}
    with opened(args, **limits) as broker:
        spaces, create = arguments.spaces(args), args.create_topics
        service = Service(plans, broker, process.registry, **spaces, create_topics=create)
        roles = service.roles
        if args.role != "publish":
            roles.append(service.tally(tally))
        if args.role != "tally":
            roles.append(service.publisher(publish, tally))
        process.run(*roles)
    return 0
