"""The service of one plan in threads of this process, for demonstrations."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry

from calmstream.broker.names import TopicNames
from calmstream.broker.topic_facts import ensure_topics
from calmstream.broker.transport import Broker
from calmstream.common.settings import load
from calmstream.consumer.publish.config import PublisherConfig
from calmstream.consumer.runtime.config import TallyConfig
from calmstream.consumer.subscribe.assembler import Snapshot
from calmstream.consumer.subscribe.subscribe import subscribe
from calmstream.estimators.plan import Plan
from calmstream.service import Service

STOP_SECONDS = 20.0  # maximum wait for each part to end
Part = Callable[[threading.Event], None]  # it ends soon after the event is set


class LocalService:
    """Worker, publisher and other parts on threads; the first error is its ``failure``."""

    def __init__(self, plan: Plan, broker: Broker, namespace: str) -> None:
        self.names = TopicNames.of(plan, namespace)
        self.failure: Exception | None = None
        self._plan = plan
        self._broker = broker
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self, *more: Part) -> None:
        """Create the topics and start all parts. The first part that fails stops the others."""
        ensure_topics(self._broker, self._plan, self.names)
        registry, namespace = CollectorRegistry(), self.names.namespace
        service = Service(self._plan, self._broker, registry, namespace=namespace)
        tally = load(TallyConfig, checkpoint_seconds=1.0, poll_seconds=0.1)
        publish = load(PublisherConfig, refresh_seconds=2.0, poll_seconds=0.1)
        for part in (service.tally(tally).run, service.publisher(publish, tally).run, *more):
            thread = threading.Thread(target=self._guard, args=(part,), daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(STOP_SECONDS)

    def snapshots(self) -> Iterator[Snapshot]:
        yield from subscribe(
            self._plan,
            self._broker,
            namespace=self.names.namespace,
            stop=self._stop,
            poll_seconds=0.1,
        )

    def _guard(self, part: Part) -> None:
        try:
            part(self._stop)
        except Exception as error:  # noqa: BLE001 - the owner of the service raises it again
            self.failure = self.failure or error
            self._stop.set()
