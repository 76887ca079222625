"""The publisher of one plan of many."""

from __future__ import annotations

from dataclasses import replace

from calmstream.broker.names import TopicNames
from calmstream.broker.shared.broker import PlanBroker
from calmstream.common.clock import Clock
from calmstream.common.errors import FatalError, RecoverableError
from calmstream.consumer.metrics.publisher import FAILURES
from calmstream.consumer.metrics.registry import Metrics
from calmstream.consumer.plans.timing import all_windows_closed_at
from calmstream.consumer.publish.config import PublisherConfig
from calmstream.consumer.publish.estimate_job import EstimateRunner
from calmstream.consumer.publish.publisher import Publisher
from calmstream.consumer.runtime.health import Verdict
from calmstream.consumer.runtime.retry import RetryBudget
from calmstream.estimators.plan import Plan


class PlanPublisher:
    """A publisher among those of other plans: a ``PlanWorker`` of ``served_plan``."""

    def __init__(
        self,
        plan: Plan,
        broker: PlanBroker,
        names: TopicNames,
        clock: Clock,
        config: PublisherConfig,
        metrics: Metrics,
        estimates: EstimateRunner,
    ) -> None:
        self._plan = plan
        self._clock = clock
        self._metrics = metrics
        self._broker = broker
        self._config = config
        self._retries = RetryBudget(clock, config.retry_seconds)
        self._publisher = Publisher(
            plan,
            broker,
            names,
            clock=clock,
            config=replace(config, poll_seconds=0.0),
            metrics=metrics,
            estimates=estimates,
        )

    def start(self) -> None:
        """Do nothing: the first turn verifies the topics."""

    def turn(self) -> bool:
        """Do one round of the publisher's loop."""
        try:
            self._publisher.turn()
        except RecoverableError as error:
            self._metrics.inc(FAILURES)
            if self._retries.failed():
                raise FatalError(
                    f"no success for {self._retries.failing_seconds:.0f} s: {error}"
                ) from error
            return False
        self._retries.succeeded()
        return self._publisher.busy or any(len(reader.queue) for reader in self._broker.readers)

    def finish(self) -> None:
        """End: everything that was published is acknowledged."""
        self._publisher.close()

    def abandon(self) -> None:
        """End."""
        self._publisher.close()

    def verdict(self) -> Verdict:
        """Return the health of the publisher."""
        return self._publisher.health.readiness()

    def silent_seconds(self) -> float:
        """Return the age of the last answer from a broker while requests fail; 0 otherwise."""
        return self._publisher.health.silent_seconds

    def over(self) -> bool:
        """Return whether every final and total is published, and early sets could be deleted."""
        cleaned = all_windows_closed_at(self._plan) + 2000 * self._config.clean_seconds
        return self._publisher.finished and self._clock.now_ms() > cleaned
