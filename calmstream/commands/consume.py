"""``calmstream consume``: count reports, publish snapshots, or both in one process."""

from __future__ import annotations

import argparse
import os

from broker.clock import SystemClock
from calmstream import arguments
from calmstream.connect import SecurityConfig, kafka
from consumer.metrics.plan import plan_metrics
from consumer.metrics.publisher import publisher_metrics
from consumer.metrics.registry import new_registry, tally_metrics
from consumer.publish.config import PublisherConfig
from consumer.publish.publisher import Publisher
from consumer.runtime.config import HttpConfig, TallyConfig, load, refuse_unknown, variables
from consumer.runtime.service import Role, configure_logging, run_service
from consumer.subscribe.subscribe import plan_names
from consumer.tally.worker import TallyWorker
from estimators.planning import require_answers

OTHERS = {
    "CALMSTREAM_DEBUG",
    "CALMSTREAM_TEST_BOOTSTRAP",
    "CALMSTREAM_REQUIRE_BROKER",
    "CALMSTREAM_REQUIRE_NODE",
    "CALMSTREAM_TEST_KAFKA_IMAGE",
    "CALMSTREAM_RAW_MEMORY_BYTES",
}
"""Variables that belong to other parts of calmstream."""


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = commands.add_parser(
        "consume",
        help="count reports and publish snapshots",
        description="Run the service until SIGTERM or SIGINT; it then writes a checkpoint, leaves "
        "its group and exits with 0. Any number of tally workers share the load; one publisher at "
        "a time is active. CALMSTREAM_* variables hold further settings.",
    )
    arguments.add_plan(parser)
    arguments.add_broker(parser)
    parser.add_argument(
        "--role", choices=("tally", "publish", "all"), default="all", help="default: %(default)s"
    )
    arguments.add_output_namespace(parser)
    parser.add_argument(
        "--checkpoint-seconds", type=float, help="time between checkpoints (default: 5)"
    )
    parser.add_argument("--refresh-seconds", type=float, help="time between early snapshots")
    parser.add_argument(
        "--http-host", help="address of /metrics, /livez and /readyz (default: 127.0.0.1)"
    )
    parser.add_argument(
        "--http-port",
        type=int,
        help="port of /metrics, /livez and /readyz (default: 9464); 0: any, -1: none",
    )
    parser.add_argument("--log-level", choices=("debug", "info", "warning", "error"))
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the chosen roles."""
    kinds = (TallyConfig, PublisherConfig, HttpConfig, SecurityConfig)
    refuse_unknown(os.environ, variables(*kinds) | OTHERS)
    tally = load(TallyConfig, checkpoint_seconds=args.checkpoint_seconds)
    publish = load(PublisherConfig, refresh_seconds=args.refresh_seconds)
    http = load(
        HttpConfig, http_host=args.http_host, http_port=args.http_port, log_level=args.log_level
    )
    configure_logging(http.log_level)
    plan = arguments.load_plan(args.plan)
    if args.role in ("publish", "all"):
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
            roles.append(TallyWorker(plan, broker, names, clock, tally, metrics))
        if args.role in ("publish", "all"):
            metrics = publisher_metrics(registry, plan, names)
            roles.append(
                Publisher(plan, broker, names, clock=clock, config=publish, metrics=metrics)
            )
        run_service(roles, registry, http)
    finally:
        broker.close()
    return 0
