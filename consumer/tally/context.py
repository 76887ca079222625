"""What every part of a tally worker is given."""

from __future__ import annotations

from dataclasses import dataclass

from structlog.typing import FilteringBoundLogger

from broker.clock import Clock
from broker.names import TopicNames
from consumer.metrics.registry import Metrics
from consumer.runtime.config import TallyConfig
from consumer.runtime.health import RoleHealth
from estimators.plan import Plan


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """The plan, the settings and the instruments of one tally worker.

    Attributes:
        plan: the plan.
        names: of the plan's topics.
        clock: the worker's own; never decides what is counted.
        config: times and sizes.
        metrics: from :func:`consumer.metrics.registry.tally_metrics`.
        health: for the web server.
        log: bound to the plan.
    """

    plan: Plan
    names: TopicNames
    clock: Clock
    config: TallyConfig
    metrics: Metrics
    health: RoleHealth
    log: FilteringBoundLogger
