"""The results of one plan over HTTP, in a thread of this process, for demonstrations."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry

from calmstream.broker.transport import Broker
from calmstream.common.clock import SystemClock
from calmstream.common.settings import load
from calmstream.consumer.serve.metrics import ServeMetrics
from calmstream.consumer.serve.server import ResultsServer
from calmstream.consumer.serve.settings import ServeSettings
from calmstream.estimators.plan import Plan

STOP_SECONDS = 20.0
"""Maximum wait for the server to end."""


@contextmanager
def local_results(plan: Plan, broker: Broker, namespace: str, port: int) -> Iterator[str]:
    """Serve the results of a plan on the loopback address; yield the address of the page."""
    settings = load(ServeSettings, host="127.0.0.1", port=port)
    plans = {plan.digest: plan}
    metrics = ServeMetrics(CollectorRegistry())
    server = ResultsServer(
        lambda: plans, broker, settings, SystemClock(), metrics, namespace=namespace
    )
    stop = threading.Event()
    thread = threading.Thread(target=server.run, args=(stop,), name="calmstream-serve", daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.port}"
    finally:
        stop.set()
        thread.join(STOP_SECONDS)
