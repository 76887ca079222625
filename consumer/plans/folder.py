"""The folder of plans that a service serves, read again every few seconds."""

from __future__ import annotations

import threading
from collections.abc import Mapping

import structlog
from prometheus_client import CollectorRegistry

from calmstream.common.clock import Clock
from calmstream.common.health import RoleHealth
from calmstream.common.metrics import Metrics
from calmstream.common.watched_folder import WatchedFolder
from calmstream.consumer.metrics import plan as m
from calmstream.estimators.plan import Plan

READ_SECONDS = 5.0
"""Time between two readings of the folder."""


class PlanFolder:
    """Reads the folder, and says what is wrong with it; a `Role`, one for each process."""

    name = "plans"

    def __init__(
        self, folder: WatchedFolder[Plan], clock: Clock, registry: CollectorRegistry
    ) -> None:
        self.health = RoleHealth(self.name, clock)
        self._metrics = Metrics(registry, m.FOLDER_METRICS, {})
        self._log = structlog.get_logger("calmstream.plans")
        self._folder = folder
        folder.refresh()  # a folder that cannot be read at the start is an error
        self.turn()

    @property
    def plans(self) -> Mapping[str, Plan]:
        """The plans to serve, by digest; replaced as a whole, for any thread to read."""
        return self._folder.documents

    def run(self, stop: threading.Event) -> None:
        while not stop.wait(READ_SECONDS):
            self.turn()

    def turn(self) -> None:
        trouble = self._folder.watch(self._log)
        refused = self._folder.refused
        self._metrics.set(m.PLANS_SERVED, len(self.plans))
        self._metrics.set(m.FILES_REFUSED, len(refused))
        self._metrics.set(m.FOLDER_UNREADABLE, bool(trouble))
        self.health.turned()
        self.health.troubled(refused)
        self.health.not_ready(trouble)
