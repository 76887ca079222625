"""What works for one plan, and the role that lets it work alone in its process."""

from __future__ import annotations

import threading
from typing import Protocol

from calmstream.consumer.runtime.health import RoleHealth


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


class Alone:
    """A role with the worker of one plan, which a fault ends."""

    def __init__(self, worker: PlanWorker, *, until_over: bool = False) -> None:
        self.name = worker.name
        self.health = worker.health
        self._worker = worker
        self._until_over = until_over

    def run(self, stop: threading.Event) -> None:
        worker = self._worker
        try:
            worker.start(stop)
            while not stop.is_set() and not (self._until_over and worker.over()):
                worker.turn()
        except StopRequested:
            pass
        except BaseException:
            worker.abandon()
            raise
        worker.finish()
