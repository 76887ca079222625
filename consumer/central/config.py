"""Settings of the aggregator, and what its parts share."""

from __future__ import annotations

from dataclasses import dataclass

from calmstream.broker.names import CentralNames
from calmstream.broker.transport import Broker
from calmstream.common.clock import Clock
from calmstream.common.health import RoleHealth
from calmstream.common.metrics import Metrics
from calmstream.common.settings import Settings, bounded
from calmstream.consumer.central.budget_account import BudgetAccount
from calmstream.estimators.central.plan import CentralPlan
from calmstream.estimators.randomness import Randomness

SEND_SECONDS = 30.0  # maximum wait for the acknowledgement of a record


class AggregatorConfig(Settings):
    """Settings of an aggregator."""

    # Of one window of the plan's stated users, or it does not start; a release takes as much again.
    raw_memory_bytes: int = bounded(1 << 30, ge=1 << 16, le=1 << 44)
    poll_seconds: float = bounded(0.5, fixed=True, ge=0, le=5)


@dataclass(frozen=True, slots=True)
class AggregatorContext:
    """The plan and the instruments of one aggregator."""

    plan: CentralPlan
    names: CentralNames
    broker: Broker
    account: BudgetAccount
    clock: Clock
    randomness: Randomness
    metrics: Metrics
    health: RoleHealth
    software: str
