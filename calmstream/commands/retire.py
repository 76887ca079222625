"""End a plan: no more reports, last finals, then all but the results is deleted.

Let the reports topics refuse reports; count and publish until the present window is final, which
takes until its end plus grace; then delete reports, state and dead letters. Snapshots and counts
stay. If the command is interrupted, run it again.
"""

from __future__ import annotations

import argparse
import os
import sys

from prometheus_client import CollectorRegistry

from calmstream import arguments
from calmstream.broker.names import TopicNames
from calmstream.broker.transport import Broker
from calmstream.common.clock import SystemClock
from calmstream.common.errors import InvalidInput
from calmstream.common.settings import load
from calmstream.connect import names_of, opened
from calmstream.consumer.operations.retire import (
    FinalsWaiter,
    delete_topics,
    last_window,
    stop_admission,
)
from calmstream.consumer.publish.config import PublisherConfig
from calmstream.consumer.runtime.config import HttpConfig, TallyConfig
from calmstream.consumer.runtime.service import configure_logging, run_service
from calmstream.estimators.plan import Plan
from calmstream.output import say
from calmstream.service import Service


def add(parser: argparse.ArgumentParser) -> None:
    arguments.add(parser, "--plan", *arguments.BROKER)
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    parser.add_argument(
        "--without-finals",
        action="store_true",
        help="delete at once; windows that are not final are lost",
    )
    parser.add_argument(
        "--delete-counts",
        action="store_true",
        help="delete the kept counts too: only the published tables are left",
    )


def run(args: argparse.Namespace) -> int:
    plan = arguments.load_plan(args.plan)
    names = names_of(args, plan)
    if not args.yes:
        _confirm(names, counts=args.delete_counts)
    with opened(args) as broker:
        topics = broker.topics()
        stop_admission(topics, names)
        say("reports are refused from now on", error=True)
        if not args.without_finals:
            say(f"{_publish_last(plan, broker, names)} windows are final", error=True)
        deleted = delete_topics(topics, names, counts=args.delete_counts)
    left = names.snapshots if args.delete_counts else f"{names.snapshots} and {names.counts}"
    say(f"{len(deleted)} topics deleted; left: {left}", error=True)
    return 0


def _confirm(names: TopicNames, *, counts: bool) -> None:
    what = (
        "reports, state, counts and dead letters" if counts else "reports, state and dead letters"
    )
    say(
        f"All {what} of {names.prefix} will be deleted.",
        f"Type {names.prefix} to continue:",
        error=True,
    )
    if sys.stdin.readline().strip() != names.prefix:
        raise InvalidInput("not confirmed; nothing was done (--yes does not ask)")


def _publish_last(plan: Plan, broker: Broker, names: TopicNames) -> int:
    """Count and publish, next to other running workers, until the last window is final."""
    clock, registry = SystemClock(), CollectorRegistry()
    through = last_window(plan, clock.now_ms())
    if through < 0:
        return 0
    awaited = FinalsWaiter(plan, broker, names, clock, through)
    left = max(0, plan.window_end(through) // 1000 + plan.grace - clock.now_ms() // 1000)
    say(f"window {through} closes in {left:,} s; waiting for its final", error=True)
    configure_logging(os.environ.get("CALMSTREAM_LOG_LEVEL", "warning"))
    service = Service(plan, broker, registry, namespace=names.namespace)
    tally = load(TallyConfig)
    roles = [service.tally(tally), service.publisher(load(PublisherConfig), tally), awaited]
    run_service(roles, registry, load(HttpConfig, http_port=-1))
    return awaited.found
