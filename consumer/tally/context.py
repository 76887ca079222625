"""The objects that all parts of a tally worker share: plan, settings, clock, metrics, log."""

from __future__ import annotations

from dataclasses import dataclass

from structlog.typing import FilteringBoundLogger

from calmstream.broker.names import TopicNames
from calmstream.common.clock import Clock
from calmstream.consumer.metrics.registry import Metrics
from calmstream.consumer.runtime.config import TallyConfig
from calmstream.consumer.runtime.health import RoleHealth
from calmstream.estimators.plan import Plan


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """The plan, the settings and the instruments of one tally worker.

    Attributes:
        plan: the plan whose reports are counted.
        names: names of the plan's topics.
        clock: the worker's clock, for time limits and ticks. Which reports count depends on the
            broker's append times only, never on this clock.
        config: settings of the worker.
        metrics: the worker's metrics, from `tally_metrics`.
        health: the worker's health, which the web server reports.
        log: the log; its lines name the plan.
    """

    plan: Plan
    names: TopicNames
    clock: Clock
    config: TallyConfig
    metrics: Metrics
    health: RoleHealth
    log: FilteringBoundLogger
