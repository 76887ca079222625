"""Puts together a process that serves every plan of a folder."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from prometheus_client import CollectorRegistry

from calmstream import arguments
from calmstream.broker.names import TopicNames, shared_group
from calmstream.broker.shared.broker import PlanBroker, SharedBroker
from calmstream.broker.transport import Broker
from calmstream.common.clock import Clock
from calmstream.common.metric_definition import MetricDefinition
from calmstream.common.watched_folder import Identity, WatchedFolder
from calmstream.consumer.metrics import plans as m
from calmstream.consumer.metrics.plan import PLAN_METRICS, set_plan_numbers
from calmstream.consumer.metrics.publisher import PUBLISHER_METRICS, set_planned_shares
from calmstream.consumer.metrics.registry import Metrics, known_labels
from calmstream.consumer.metrics.tally import TALLY_METRICS
from calmstream.consumer.plans.folder import PlanFolder
from calmstream.consumer.plans.lanes import Lanes, ThreadLanes
from calmstream.consumer.plans.role import PlansRole, WorkerKind
from calmstream.consumer.publish.config import PublisherConfig
from calmstream.consumer.publish.estimate_job import EstimateRunner
from calmstream.consumer.publish.estimate_pool import EstimatePool, Estimates
from calmstream.consumer.publish.publisher import Publisher
from calmstream.consumer.runtime.config import TallyConfig
from calmstream.consumer.runtime.retry import retry_call
from calmstream.consumer.runtime.service import Role
from calmstream.consumer.sink.metrics import SINK_METRICS, SinkMetrics
from calmstream.consumer.sink.target import Target
from calmstream.consumer.sink.worker import PLAN_ROWS, SinkWorker, WithTarget
from calmstream.consumer.subscribe.subscribe import DEFAULT_NAMESPACE, plan_names
from calmstream.consumer.tally.worker import TallyWorker
from calmstream.estimators.plan import Plan
from calmstream.estimators.planning import require_answers
from calmstream.producer.device.read_plan import read_any_plan
from calmstream.producer.signed.envelope import MAX_ENVELOPE_BYTES
from calmstream.topics import ensure_topics

_CREATE_SECONDS = 20.0
"""Maximum time for creating the topics of a plan, before the plan is put into quarantine."""

C = TypeVar("C", TallyConfig, PublisherConfig)


@dataclass(frozen=True, slots=True)
class Namespaces:
    """Where the topics of all plans are.

    Attributes:
        namespace: first part of the names of the reports topics.
        output: first part of the names of the other topics; empty means the same.
    """

    namespace: str = DEFAULT_NAMESPACE
    output: str = ""

    def names(self, plan: Plan) -> TopicNames:
        """Return the names of a plan's topics."""
        return plan_names(plan, self.namespace, self.output)

    def group(self, role: str) -> str:
        """Return the consumer group of a role."""
        return shared_group(
            self.output or self.namespace, "tally" if role == "tally" else "publisher"
        )


def plans_in(
    folder: Path, *, roots: Sequence[str], allow_unsigned: bool, publishes: bool
) -> WatchedFolder[Plan]:
    """Return a folder of plans, not read yet."""

    def read(document: bytes) -> Plan:
        plan = read_any_plan(document, roots, allow_unsigned=allow_unsigned).plan
        if publishes:
            require_answers(plan)
        return plan

    return WatchedFolder(
        folder,
        read,
        lambda plan: Identity(plan.name, plan.digest),
        max_bytes=MAX_ENVELOPE_BYTES,
    )


def _folder_of(args: argparse.Namespace, *, publishes: bool) -> WatchedFolder[Plan]:
    """Return the folder of ``--plans``, not read yet."""
    return plans_in(
        Path(args.plans),
        roots=arguments.load_roots(args.roots),
        allow_unsigned=args.allow_unsigned,
        publishes=publishes,
    )


def listed_plans(args: argparse.Namespace) -> tuple[list[Plan], dict[str, str]]:
    """Return the plans of ``--plan`` or ``--plans`` by name, and why files are not among them.

    Raises:
        InvalidInput: the file or the folder cannot be read.
    """
    if args.plans is None:
        return [arguments.load_plan(args.plan)], {}
    folder = _folder_of(args, publishes=False)
    folder.refresh()
    plans = sorted(folder.documents.values(), key=lambda plan: (plan.name, plan.digest))
    return plans, dict(folder.refused)


def read_folder(
    args: argparse.Namespace, clock: Clock, registry: CollectorRegistry, *, publishes: bool
) -> PlanFolder:
    """Return the folder of ``--plans``, which is watched.

    Raises:
        InvalidInput: the folder cannot be read.
    """
    return PlanFolder(_folder_of(args, publishes=publishes), clock, registry)


class ManyPlans:
    """Makes the roles of a process with many plans.

    Args:
        create_topics: whether the missing topics of a plan are created when it is taken up.
    """

    def __init__(
        self,
        folder: PlanFolder,
        broker: Broker,
        clock: Clock,
        registry: CollectorRegistry,
        where: Namespaces,
        *,
        create_topics: bool = False,
        lanes: Callable[[], Lanes] | None = None,
        estimates: Estimates | None = None,
    ) -> None:
        self._folder = folder
        self._broker = broker
        self._clock = clock
        self._registry = registry
        self._where = where
        self._create_topics = create_topics
        self._lanes = lanes or partial(ThreadLanes, clock)
        self._estimates = estimates or EstimatePool(clock, max(2, os.cpu_count() or 2))
        self._started = clock.now_ms() / 1000
        self._numbers: tuple[MetricDefinition, ...] = PLAN_METRICS

    def tally(self, config: TallyConfig) -> Role:
        """Return the role that counts all plans."""
        where, clock = self._where, self._clock

        def make(plan: Plan, broker: PlanBroker, metrics: Metrics) -> TallyWorker:
            names = where.names(plan)
            self._prepare(plan, broker, names)
            return TallyWorker(plan, broker, names, clock, self._scaled(config), metrics)

        metrics = self._metrics((*TALLY_METRICS, *m.TALLY_PLAN_METRICS))
        kind = WorkerKind("tally", make, metrics, m.TALLY_QUARANTINED, m.TALLY_FAULTS)
        return self._role(kind, config, member=config.member or None)

    def publisher(self, config: PublisherConfig, tally: TallyConfig) -> Role:
        """Return the role that publishes all plans."""
        where, clock = self._where, self._clock
        pool = self._estimates

        def make(plan: Plan, broker: PlanBroker, metrics: Metrics) -> Publisher:
            names = where.names(plan)
            self._prepare(plan, broker, names)
            estimates = EstimateRunner(
                partial(pool.start, plan.digest),
                wait_seconds=0.0,
                start_tests=partial(pool.start_tests, plan.digest),
            )
            return Publisher(
                plan,
                broker,
                names,
                clock=clock,
                config=replace(self._scaled(config), poll_seconds=0.0),
                metrics=metrics,
                estimates=estimates,
            )

        register = self._metrics((*PUBLISHER_METRICS, *m.PUBLISHER_PLAN_METRICS))

        def metrics(plan: Plan) -> Metrics:
            registered = register(plan)
            set_planned_shares(registered, plan)
            return registered

        kind = WorkerKind(
            "publisher",
            make,
            metrics,
            m.PUBLISHER_QUARANTINED,
            m.PUBLISHER_FAULTS,
            reads=True,
        )
        role = self._role(kind, tally, member=None)
        pool.done = role.wake
        return role

    def sink(self, target: Target, config: TallyConfig) -> Role:
        """Return the role that stores the results of all plans in one target."""

        def make(plan: Plan, broker: PlanBroker, metrics: Metrics) -> SinkWorker:
            return SinkWorker(
                plan,
                broker,
                self._where.names(plan),
                target,
                self._clock,
                SinkMetrics(metrics),
                poll_seconds=0.0,
                batch_rows=PLAN_ROWS,
                check_seconds=self._scaled(config).topic_check_seconds,
                retry_seconds=config.retry_seconds,
            )

        metrics = self._metrics((*SINK_METRICS, *m.SINK_PLAN_METRICS))
        kind = WorkerKind("sink", make, metrics, m.SINK_QUARANTINED, m.SINK_FAULTS, reads=True)
        return WithTarget(self._role(kind, config, member=None), target)

    def _role(self, kind: WorkerKind, config: TallyConfig, *, member: str | None) -> PlansRole:
        shared = SharedBroker(
            self._broker, self._where.group(kind.role), self._clock, member=member
        )
        return PlansRole(
            kind,
            lambda: self._folder.plans,
            shared,
            self._clock,
            self._lanes(),
            session_seconds=config.session_seconds,
            retry_seconds=config.retry_seconds,
            stop_seconds=config.stop_seconds,
        )

    def _scaled(self, config: C) -> C:
        """Return the settings for a worker among others: all together look at one plan a second."""
        seconds = max(config.topic_check_seconds, float(min(len(self._folder.plans), 3600)))
        return replace(config, topic_check_seconds=seconds)

    def _metrics(self, definitions: Sequence[MetricDefinition]) -> Callable[[Plan], Metrics]:
        """Return what registers the metrics of a plan; one role of the process adds its numbers."""
        numbers, self._numbers = self._numbers, ()

        def register(plan: Plan) -> Metrics:
            labels = known_labels(plan, self._where.names(plan))
            metrics = Metrics(self._registry, (*definitions, *numbers), labels)
            if numbers:
                set_plan_numbers(metrics, plan, self._started)
            return metrics

        return register

    def _prepare(self, plan: Plan, broker: PlanBroker, names: TopicNames) -> None:
        if self._create_topics:
            retry_call(
                "the broker",
                lambda: ensure_topics(broker, plan, names),
                clock=self._clock,
                seconds=_CREATE_SECONDS,
                pause_seconds=1.0,
                failed=lambda _error: None,
            )
