"""A collection in this process: the notebooks need no Kafka, no devices, and no days of waiting.

All parts are those of a real service, but the broker's clock is moved by hand: it jumps to the next
window when all devices of a window have reported.
"""  # noqa: INP001 - beside the notebooks, not a package

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from calmstream import Plan
from calmstream.broker.in_process import InProcessBroker
from calmstream.common.clock import SystemClock
from calmstream.consumer.runtime.service import configure_logging
from calmstream.local_service import LocalService
from calmstream.producer.simulation.produce import produce


class PlanClock(SystemClock):
    """Time that stands still in a window, until a test or notebook moves it on."""

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self._window = 0
        self._plan = plan

    def now_ms(self) -> int:
        """Return milliseconds since the epoch."""
        return self._plan.window_start(self._window)

    def next_window(self) -> None:
        """Go to the next window."""
        self._window += 1


def collect(plan: Plan, people: Sequence[Mapping[str, Any]]) -> InProcessBroker:
    """Let people report, and return the broker that holds the results.

    Args:
        plan: the plan, which starts in the past; devices report once.
        people: for each window of the plan a table of those who report in it, such as a DataFrame.
    """
    configure_logging("error")
    clock = PlanClock(plan)
    broker = InProcessBroker(clock.now_ms)
    service = LocalService(plan, broker, "calmstream")

    def devices(stop: threading.Event) -> None:
        for table in people:
            codes = plan.domain.encode({name: list(table[name]) for name in plan.domain.names})
            summary = produce(plan, broker, service.names, codes, clock=clock, stop=stop)
            if summary.error is not None:
                raise summary.error
            clock.next_window()
        clock.next_window()  # Now no late report can come any more.

    service.start(devices)
    last = "current" if plan.windows > 1 else "total"
    try:
        for snapshot in service.snapshots():
            if (snapshot.kind, snapshot.window) == (last, plan.windows - 1):
                return broker
    finally:
        service.stop()
    raise service.failure or RuntimeError("the service ended without its last snapshot")
