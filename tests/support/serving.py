"""Help for the tests of the HTTP interface: a server of its own over a bench's broker."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import httpx
import numpy as np
from prometheus_client import CollectorRegistry

from calmstream.broker.transport import Broker, Partition, Record
from calmstream.common.clock import SystemClock
from calmstream.common.settings import load
from calmstream.consumer.read.history import History
from calmstream.consumer.serve.metrics import ServeMetrics
from calmstream.consumer.serve.plan_service import PlanService
from calmstream.consumer.serve.server import ResultsServer
from calmstream.consumer.serve.settings import ServeSettings
from calmstream.estimators.plan import Plan
from tests.support.publisher import Bench, published_plan, work
from tests.support.service import processes

DEADLINE = 60.0
wait_for = partial(processes.until, "what a server says", seconds=DEADLINE, pause=0.02)


def filled(plan: Plan | None = None, windows: int = 3, **changes: Any) -> Bench:
    """Return a bench with published windows of some 200 reports a group."""
    plan = published_plan(groups=3, **changes) if plan is None else plan
    bench = Bench(plan, track=True)
    dice = np.random.default_rng(7)
    for log in bench.logs:
        for window in range(windows):
            cells = dice.choice(4, size=200, p=[0.4, 0.3, 0.2, 0.1])
            log.report(window, *cells.tolist()).close(window)
    bench.put_all()
    work(bench.publication())
    return bench


def asking(bench: Bench) -> History:
    return History(bench.plan, bench.broker, namespace=bench.names.namespace)


def recount(bench: Bench, keep: Callable[[bytes], bool]) -> list[Record]:
    """Make the counts topic anew with the records of these keys; return the others."""
    records = list(bench.broker.records(Partition(bench.names.counts, 0)))
    bench.topics.delete([bench.names.counts])
    bench.topics.create([s for s in bench.names.specs(0) if s.name == bench.names.counts])
    for record in records:
        if keep(record.key or b""):
            bench.sink.send(bench.names.counts, record.key, record.value, partition=0).wait(5)
    return [record for record in records if not keep(record.key or b"")]


@dataclass
class Serving:
    address: str
    service: PlanService
    server: ResultsServer
    client: httpx.Client
    registry: CollectorRegistry

    def connections(self) -> float | None:
        return self.registry.get_sample_value("calmstream_serve_connections")

    def get(self, path: str, **options: Any) -> httpx.Response:
        """Ask the plan; ``path`` begins after its name."""
        return self.client.get(f"/v1/plans/{self.service.plan.name}{path}", **options)


@contextmanager
def running(
    wanted: Mapping[str, Plan], broker: Broker, namespace: str, **options: Any
) -> Iterator[tuple[ResultsServer, CollectorRegistry]]:
    """Run a server on a free port; ``options`` are those of the server and its settings."""
    own = ("output_namespace", "token", "hosts", "origins")
    given = {name: options.pop(name) for name in own if name in options}
    registry, stop = CollectorRegistry(), threading.Event()
    server = ResultsServer(
        lambda: dict(wanted),
        broker,
        load(ServeSettings, port=0, **{"retry_seconds": 0.1, **options}),
        SystemClock(),
        ServeMetrics(registry),
        namespace=namespace,
        **given,
    )
    thread = threading.Thread(target=server.run, args=(stop,))
    thread.start()
    try:
        yield server, registry
    finally:
        stop.set()
        thread.join(DEADLINE)
        assert not thread.is_alive()


@contextmanager
def serving(
    plan: Plan, broker: Broker, *, namespace: str = "test", ready: bool = True, **options: Any
) -> Iterator[Serving]:
    with running({plan.digest: plan}, broker, namespace, **options) as (server, registry):
        address = f"http://127.0.0.1:{server.port}"
        with httpx.Client(base_url=address, timeout=DEADLINE) as client:
            wait_for(lambda: server.plans)
            service = server.plans[plan.name]
            if ready:
                wait_for(lambda: server.health.readiness().well)
            yield Serving(address, service, server, client, registry)


def serving_bench(bench: Bench, **options: Any) -> Any:
    return serving(bench.plan, bench.broker, namespace=bench.names.namespace, **options)
