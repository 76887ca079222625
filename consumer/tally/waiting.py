"""Waiting for the broker in a tally worker: repeats calls, and keeps the membership alive."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from structlog.typing import FilteringBoundLogger

from calmstream.common.clock import Clock
from calmstream.common.errors import RecoverableError
from calmstream.consumer.runtime.health import RoleHealth
from calmstream.consumer.runtime.retry import retry_call
from calmstream.consumer.runtime.worker import StopRequested
from calmstream.consumer.tally.membership import Membership

T = TypeVar("T")

# Pause in seconds between two attempts of a call.
_RETRY_PAUSE = 0.5


@dataclass(frozen=True, slots=True)
class Retries:
    """Repeats failing calls to the broker for a limited time.

    Attributes:
        clock: measures the time and sleeps between attempts.
        seconds: maximum time for the attempts of one call.
        stop: an event that ends the repetitions.
        log: receives one warning for each failure.
    """

    clock: Clock
    seconds: float
    stop: threading.Event
    log: FilteringBoundLogger

    def call(self, what: str, call: Callable[[], T]) -> T:
        """Repeat a call until it succeeds, and return its result. Blocks."""

        def failed(error: RecoverableError) -> None:
            if self.stop.is_set():
                raise StopRequested from error
            self.log.warning("a call failed", what=what, error=str(error))

        return retry_call(
            what,
            call,
            clock=self.clock,
            seconds=self.seconds,
            pause_seconds=_RETRY_PAUSE,
            failed=failed,
        )


@dataclass(frozen=True, slots=True)
class KeepAlive:
    """Keeps the group membership and the health check alive during a long operation.

    Attributes:
        membership: the membership of the consumer group.
        health: the health of the worker.
        stop: an event that ends a wait in :meth:`beat_or_stop`.
    """

    membership: Membership
    health: RoleHealth
    stop: threading.Event

    def beat(self) -> None:
        """Keep membership and health alive once; to be called often during a wait."""
        self.health.turned()
        self.membership.keep_alive()

    def beat_or_stop(self) -> None:
        """Keep membership and health alive once, or end the wait by an error."""
        if self.stop.is_set():
            raise StopRequested
        self.beat()
