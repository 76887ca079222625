"""Puts together a process that serves one plan, or every plan of a folder.

A fault of the only plan ends the process. Of many plans it stops only the one that it concerns.
"""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from prometheus_client import CollectorRegistry

from calmstream import arguments
from calmstream.broker.names import DEFAULT_NAMESPACE, CountingRole, TopicNames, shared_group
from calmstream.broker.shared.broker import SharedBroker
from calmstream.broker.topic_facts import ensure_topics, retired
from calmstream.broker.transport import Broker
from calmstream.common.clock import Clock, SystemClock
from calmstream.common.errors import CalmstreamError, InvalidInput, PlanRetired, RecoverableError
from calmstream.common.metrics import MetricDefinition, Metrics
from calmstream.common.watched_folder import WatchedFolder
from calmstream.consumer.metrics.plan import PLAN_METRICS, set_plan_numbers
from calmstream.consumer.metrics.registry import plan_label, plan_metrics
from calmstream.consumer.plans.folder import PlanFolder
from calmstream.consumer.plans.lanes import Lanes
from calmstream.consumer.plans.role import PlansRole, WorkerKind
from calmstream.consumer.runtime.config import TallyConfig
from calmstream.consumer.runtime.context import TallyContext
from calmstream.consumer.runtime.retry import RetryBudget
from calmstream.consumer.runtime.service import Alone, Role
from calmstream.consumer.runtime.threads import Threads
from calmstream.estimators.plan import Plan

if TYPE_CHECKING:
    # A process loads only the roles that it plays: a worker needs no methods, nobody a database.
    from calmstream.consumer.publish.config import PublisherConfig
    from calmstream.consumer.publish.estimate_runner import EstimateRunner
    from calmstream.consumer.sink.target import Target
    from calmstream.producer.device.policy import AcceptedPlan

_FETCH_WAIT_SECONDS = 1.0  # with many plans, most of whose partitions are idle
_CREATE_SECONDS = 20.0  # for the topics of a plan, before its quarantine

C = TypeVar("C", bound="TallyConfig | PublisherConfig")


def require_answers(found: AcceptedPlan) -> None:
    """Refuse a plan some of whose marginals its method cannot publish."""
    from calmstream.estimators import planning

    planning.require_answers(found.plan)


def plans_in(
    folder: Path,
    *,
    roots: Sequence[str],
    allow_unsigned: bool,
    check: Callable[[AcceptedPlan], object] = lambda _: None,
) -> WatchedFolder[Plan]:
    """Return a folder of plans, not read yet; ``check`` gets every plan, and may refuse it."""
    # Signatures are checked only where plans come from a folder.
    from calmstream.producer.device.read_plan import read_any_plan
    from calmstream.producer.signed.envelope import MAX_ENVELOPE_BYTES

    def read(document: bytes) -> Plan:
        found = read_any_plan(document, roots, allow_unsigned=allow_unsigned)
        check(found)
        return found.plan

    return WatchedFolder(folder, read, max_bytes=MAX_ENVELOPE_BYTES)


def _folder(
    args: argparse.Namespace, check: Callable[[AcceptedPlan], object]
) -> WatchedFolder[Plan] | None:
    """Return the folder of ``--plans``; None where ``--plan`` has the only plan."""
    if args.plans is None:
        if args.roots or args.allow_unsigned:
            raise InvalidInput("--roots and --allow-unsigned go with --plans DIR")
        return None
    return plans_in(Path(args.plans), **arguments.trust(args), check=check)


def accepted_plans(args: argparse.Namespace) -> tuple[list[AcceptedPlan], dict[str, str]]:
    """Return the plans of ``--plan`` or ``--plans`` by name, and why files are not among them."""
    found: list[AcceptedPlan] = []
    folder = _folder(args, found.append)
    if folder is None:
        return [arguments.load_accepted(args.plan)], {}
    folder.refresh(math.inf)  # a command that reads once leaves no plan out
    served = {one.plan.digest: one for one in found if one.plan.digest in folder.documents}
    by_name = sorted(served.values(), key=lambda one: (one.plan.name, one.plan.digest))
    return by_name, dict(folder.refused)


@contextmanager
def noted(args: argparse.Namespace, plan: Plan, failed: dict[str, str]) -> Iterator[None]:
    """Note a fault of one plan of ``--plans``, which leaves the others."""
    try:
        yield
    except CalmstreamError as error:
        if isinstance(error, RecoverableError) or args.plans is None:
            raise
        failed[plan_label(plan)] = str(error)


def served_plans(
    args: argparse.Namespace, registry: CollectorRegistry, *, publishes: bool
) -> Plan | PlanFolder:
    """Return the plan of ``--plan``, or the folder of ``--plans``, which is watched."""
    check = require_answers if publishes else (lambda _: None)
    folder = _folder(args, check)
    if folder is not None:
        return PlanFolder(folder, SystemClock(), registry)
    only = arguments.load_accepted(args.plan)
    check(only)
    return only.plan


def fetch_limits(args: argparse.Namespace) -> dict[str, float]:
    return {} if args.plans is None else {"fetch_wait_seconds": _FETCH_WAIT_SECONDS}


class Service:
    """Makes the roles of a process."""

    def __init__(
        self,
        plans: Plan | PlanFolder,
        broker: Broker,
        registry: CollectorRegistry,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        output_namespace: str = "",
        clock: Clock | None = None,
        create_topics: bool = False,
        lanes: Callable[[], Lanes] | None = None,
        estimates: EstimateRunner | None = None,
    ) -> None:
        self._plans = plans
        self._broker = broker
        self._clock = clock = clock or SystemClock()
        self._registry = registry
        self._names = partial(TopicNames.of, namespace=namespace, output_namespace=output_namespace)
        self._results_namespace = output_namespace or namespace
        self._create_topics = create_topics
        self._lanes = lanes or partial(Lanes, clock)
        self._estimates = estimates
        self._started = clock.now_ms() / 1000

    @property
    def roles(self) -> list[Role]:
        return [] if isinstance(self._plans, Plan) else [self._plans]

    def tally(self, config: TallyConfig) -> Role:
        from calmstream.consumer.metrics import tally as m
        from calmstream.consumer.tally.worker import TallyWorker

        def make(plan: Plan, broker: Broker, metrics: Metrics) -> TallyWorker:
            names, scaled = self._prepared(plan, broker), self._scaled(config)
            context = TallyContext("tally", plan, names, self._clock, scaled, metrics)
            return TallyWorker(context, broker)

        metrics = self._metrics(m.TALLY_METRICS)
        kind = WorkerKind("tally", make, metrics, m.QUARANTINED, m.FAULTS)
        return self._role(kind, config)

    def publisher(self, config: PublisherConfig, tally: TallyConfig) -> Role:
        from calmstream.consumer.metrics import publisher as m
        from calmstream.consumer.publish.config import PublisherContext
        from calmstream.consumer.publish.estimate_runner import EstimateRunner
        from calmstream.consumer.publish.publisher import Publisher

        # For many plans only: called in turns of the role, when wake, threads and tests are set.
        def runner(plan: Plan) -> EstimateRunner:
            def start(on: Threads, run: Callable[[], None]) -> None:
                def call() -> None:
                    run()
                    wake(plan.digest)

                on.put(call)

            return EstimateRunner(partial(start, threads), 0.0, partial(start, tests))

        def make(plan: Plan, broker: Broker, metrics: Metrics) -> Publisher:
            names, chosen, estimates = self._prepared(plan, broker), config, None
            if not isinstance(self._plans, Plan):
                chosen = replace(self._scaled(config), poll_seconds=0.0)
                estimates = self._estimates or runner(plan)
            context = PublisherContext("publisher", plan, names, self._clock, chosen, metrics)
            return Publisher(context, broker, estimates)

        metrics = self._metrics(m.PUBLISHER_METRICS)
        kind = WorkerKind("publisher", make, metrics, m.QUARANTINED, m.FAULTS, reads=True)
        role = self._role(kind, tally)
        if isinstance(role, PlansRole):
            wake = role.wake
            # No estimate waits for tests of change.
            threads = Threads(max(2, os.cpu_count() or 2), "estimates")
            tests = Threads(1, "tests of change")
        return role

    def sink(self, target: Target, config: TallyConfig) -> Role:
        from calmstream.consumer.sink import metrics as m
        from calmstream.consumer.sink import worker as w

        def make(plan: Plan, broker: Broker, metrics: Metrics) -> w.SinkWorker:
            names, scaled = self._names(plan), self._scaled(config)
            context = w.SinkContext("sink", plan, names, self._clock, scaled, metrics)
            return w.SinkWorker(context, broker, target, many=not isinstance(self._plans, Plan))

        # Without the plan's numbers: a retired plan may keep its sink, and needs no worker.
        metrics = self._metrics(m.SINK_METRICS, numbers=False)
        kind = WorkerKind("sink", make, metrics, m.QUARANTINED, m.FAULTS, reads=True)
        return w.WithTarget(self._role(kind, config), target)

    def _role(self, kind: WorkerKind, config: TallyConfig) -> Role:
        plans = self._plans
        if isinstance(plans, Plan):
            return Alone(kind.make(plans, self._broker, kind.metrics(plans)))
        role: CountingRole = "tally" if kind.role == "tally" else "publisher"
        group = shared_group(self._results_namespace, role)
        return PlansRole(
            kind,
            lambda: plans.plans,
            SharedBroker(self._broker, group, self._clock),
            self._clock,
            self._lanes(),
            config,
        )

    def _scaled(self, config: C) -> C:
        """Return the settings for a worker among others: all together look at one plan a second."""
        number = 0 if isinstance(self._plans, Plan) else len(self._plans.plans)
        seconds = max(config.topic_check_seconds, float(min(number, 3600)))
        return replace(config, topic_check_seconds=seconds)

    def _metrics(
        self, definitions: Sequence[MetricDefinition], *, numbers: bool = True
    ) -> Callable[[Plan], Metrics]:
        """Return what registers the metrics of a plan, with the plan's numbers beside them."""
        all_of_them = (*definitions, *(PLAN_METRICS if numbers else ()))

        def register(plan: Plan) -> Metrics:
            metrics = plan_metrics(self._registry, plan, self._names(plan), all_of_them)
            if numbers:
                set_plan_numbers(metrics, plan, self._started)
            return metrics

        return register

    def _prepared(self, plan: Plan, broker: Broker) -> TopicNames:
        """Return the names of a plan's topics; PlanRetired if they must not be created again."""
        names = self._names(plan)
        # Not the counts: a worker may not describe them.
        looked = [*names.all_reports, names.state, names.dead_letters, names.snapshots]
        if retired(names, broker.topics().describe(looked, ())):
            raise PlanRetired(f"plan {plan_label(plan)} was retired; remove its file")
        if self._create_topics:
            RetryBudget(self._clock, _CREATE_SECONDS).call(
                "the broker", lambda: ensure_topics(broker, plan, names), pause_seconds=1.0
            )
        return names
