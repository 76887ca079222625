"""The worker of one plan, and what all its parts share."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

import structlog
from structlog.typing import FilteringBoundLogger

from calmstream.broker.names import TopicNames
from calmstream.broker.topic_facts import verify_topics
from calmstream.broker.topic_watch import TopicWatch, watch_plan
from calmstream.broker.transport import Topics
from calmstream.common.clock import Clock
from calmstream.common.errors import RecoverableError
from calmstream.common.health import RoleHealth
from calmstream.common.metrics import Metrics
from calmstream.consumer.runtime.config import TallyConfig, WorkerConfig
from calmstream.consumer.runtime.retry import RetryBudget
from calmstream.estimators.plan import Plan

T = TypeVar("T")
C = TypeVar("C", bound=WorkerConfig)

_RETRY_PAUSE = 0.5


class StopRequested(Exception):  # noqa: N818 - not an error: it ends a long wait
    """A worker was asked to stop during an operation that can be repeated later."""


class PlanWorker(Protocol):
    """The worker of one plan in one role. Only one of its calls runs at a time."""

    @property
    def name(self) -> str:
        """The role's name, for logs and health."""

    @property
    def health(self) -> RoleHealth:
        """Whether the worker makes progress and does its work."""

    def start(self, stop: threading.Event) -> None:
        """Begin; ``stop`` ends long waits by `StopRequested`."""

    def turn(self) -> bool:
        """Do one round; return whether more is due at once."""

    def finish(self) -> None:
        """Write what must be written, and end."""

    def abandon(self) -> None:
        """End without writing. Never raises."""

    def over(self) -> bool:
        """Return whether the plan needs no worker any more."""


@dataclass(slots=True)
class PlanContext(Generic[C]):
    """The plan, the settings and the instruments of its worker in one role.

    The clock serves time limits and ticks; which reports count depends on append times only.
    """

    role: str
    plan: Plan
    names: TopicNames
    clock: Clock
    config: C
    metrics: Metrics
    health: RoleHealth = field(init=False)
    log: FilteringBoundLogger = field(init=False)
    stop: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.health = RoleHealth(self.role, self.clock)
        logger = structlog.get_logger(f"calmstream.{self.role}")
        self.log = logger.bind(plan=self.plan.digest[:8])

    def retry(self, what: str, call: Callable[[], T]) -> T:
        """Repeat a call to the broker until it succeeds, for ``retry_seconds``. Blocks."""

        def failed(error: RecoverableError) -> None:
            if self.stop.is_set():
                raise StopRequested from error
            self.log.warning("a call failed", what=what, error=str(error))

        budget = RetryBudget(self.clock, self.config.retry_seconds)
        return budget.call(what, call, pause_seconds=_RETRY_PAUSE, failed=failed)

    def watch(self, topics: Topics, used: Collection[str] | None = None) -> TopicWatch:
        """Verify the topics that the worker uses, or all of the plan, and return their watch."""
        found = self.retry("the broker", lambda: verify_topics(self.plan, self.names, topics, used))
        return watch_plan(
            self.plan,
            self.names,
            topics,
            found,
            self.clock,
            every_seconds=self.config.topic_check_seconds,
            retry_seconds=self.config.retry_seconds,
        )


TallyContext = PlanContext[TallyConfig]


_MARGIN_MS = 60_000
"""For clocks that differ, and for records on their way."""


def all_windows_closed_at(plan: Plan) -> int:
    """Return a time in milliseconds since the epoch at which every window should be closed."""
    return plan.window_end(plan.windows - 1) + plan.grace * 1000 + _MARGIN_MS
