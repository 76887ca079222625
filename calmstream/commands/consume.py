"""``calmstream consume``: count reports, publish snapshots, or both in one process."""

from __future__ import annotations

import argparse

from prometheus_client import CollectorRegistry

from calmstream import arguments
from calmstream.broker.names import TopicNames
from calmstream.broker.transport import Broker
from calmstream.common.clock import Clock, SystemClock
from calmstream.common.errors import InvalidInput
from calmstream.common.settings import load
from calmstream.connect import kafka
from calmstream.consumer.metrics.plan import plan_metrics
from calmstream.consumer.metrics.registry import new_registry, tally_metrics
from calmstream.consumer.publish.config import PublisherConfig
from calmstream.consumer.runtime.config import HttpConfig, TallyConfig
from calmstream.consumer.runtime.service import Role, configure_logging, run_service
from calmstream.consumer.runtime.worker import Alone
from calmstream.consumer.subscribe.subscribe import plan_names
from calmstream.consumer.tally.worker import TallyWorker
from calmstream.estimators.plan import Plan

FETCH_WAIT_SECONDS = 1.0
"""With many plans there are many partitions, and most of them are idle."""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.description = (
        "Run the service until SIGTERM or SIGINT; it then writes a checkpoint, leaves "
        "its group and exits with 0. Any number of tally workers share the load; one publisher at "
        "a time is active. With --plans a fault of one plan stops only this plan; it is tried "
        "again. CALMSTREAM_* variables hold further settings."
    )
    arguments.add_plans(parser)
    parser.add_argument(
        "--create-topics",
        action="store_true",
        help="with --plans: create the missing topics of a plan that appears",
    )
    arguments.add_broker(parser)
    parser.add_argument(
        "--role", choices=("tally", "publish", "all"), default="all", help="default: %(default)s"
    )
    arguments.add_output_namespace(parser)
    parser.add_argument(
        "--checkpoint-seconds", type=float, help="time between checkpoints (default: 5)"
    )
    parser.add_argument("--refresh-seconds", type=float, help="time between early snapshots")
    arguments.add_http(parser)


def run(args: argparse.Namespace) -> int:
    """Run the chosen roles."""
    tally = load(TallyConfig, checkpoint_seconds=args.checkpoint_seconds)
    publish = load(PublisherConfig, refresh_seconds=args.refresh_seconds)
    http = arguments.http_config(args)
    configure_logging(http.log_level)
    arguments.check_plans(args)
    if args.plans is not None:
        run_plans(args, tally, publish, http)
        return 0
    if args.create_topics:
        raise InvalidInput("--create-topics goes with --plans DIR")
    plan = arguments.load_plan(args.plan)
    publishes = args.role in ("publish", "all")
    if publishes:
        # A worker that only counts does not load the methods of estimation.
        from calmstream.estimators.planning import require_answers

        require_answers(plan)
    names = plan_names(plan, args.namespace, args.output_namespace)
    # One session for both sides: the group gives a silent member's partitions away when the member
    # itself stops writing.
    broker = kafka(args.bootstrap, session_seconds=tally.session_seconds)
    clock, registry = SystemClock(), new_registry()
    plan_metrics(registry, plan, names, clock.now_ms() / 1000)
    try:
        roles: list[Role] = []
        if args.role in ("tally", "all"):
            metrics = tally_metrics(registry, plan, names)
            roles.append(Alone(TallyWorker(plan, broker, names, clock, tally, metrics)))
        if publishes:
            roles.append(_publisher(plan, broker, names, clock, publish, registry))
        run_service(roles, registry, http)
    finally:
        broker.close()
    return 0


def run_plans(
    args: argparse.Namespace, tally: TallyConfig, publish: PublisherConfig, http: HttpConfig
) -> None:
    """Serve every plan of a folder."""
    from calmstream.many_plans import ManyPlans, Namespaces, read_folder

    clock, registry = SystemClock(), new_registry()
    folder = read_folder(args, clock, registry, publishes=args.role != "tally")
    where = Namespaces(args.namespace, args.output_namespace)
    broker = kafka(
        args.bootstrap,
        session_seconds=tally.session_seconds,
        fetch_wait_seconds=FETCH_WAIT_SECONDS,
    )
    try:
        many = ManyPlans(folder, broker, clock, registry, where, create_topics=args.create_topics)
        roles: list[Role] = [folder]
        if args.role in ("tally", "all"):
            roles.append(many.tally(tally))
        if args.role in ("publish", "all"):
            roles.append(many.publisher(publish, tally))
        run_service(roles, registry, http)
    finally:
        broker.close()


def _publisher(
    plan: Plan,
    broker: Broker,
    names: TopicNames,
    clock: Clock,
    config: PublisherConfig,
    registry: CollectorRegistry,
) -> Role:
    from calmstream.consumer.metrics.publisher import publisher_metrics
    from calmstream.consumer.publish.publisher import Publisher

    metrics = publisher_metrics(registry, plan, names)
    return Alone(Publisher(plan, broker, names, clock=clock, config=config, metrics=metrics))
