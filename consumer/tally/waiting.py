"""What a tally worker does while it waits for the broker."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from structlog.typing import FilteringBoundLogger

from broker.clock import Clock
from consumer.runtime.health import RoleHealth
from consumer.runtime.retry import retry_call
from consumer.tally.membership import Membership
from estimators.errors import RecoverableError

T = TypeVar("T")

_RETRY_PAUSE = 0.5


class StopRequested(Exception):  # noqa: N818 - not an error: it ends a long wait
    """The worker is asked to stop during something that can be done again."""


@dataclass(frozen=True, slots=True)
class Retries:
    """Repeats calls to the broker within the worker's retry budget.

    Attributes:
        clock: for the budget and the pauses.
        seconds: the budget of one call.
        stop: ends the repetitions when it is set.
        log: one warning per failure.
    """

    clock: Clock
    seconds: float
    stop: threading.Event
    log: FilteringBoundLogger

    def call(self, what: str, call: Callable[[], T]) -> T:
        """Repeat a call until it succeeds, and return its result. Blocks.

        Raises:
            FatalError: the budget is spent.
            StopRequested: the call failed and the worker is asked to stop.
        """

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
        membership: gets its heartbeat.
        health: gets a sign that the loop is alive.
        stop: ends a wait in :meth:`beat_or_stop`.
    """

    membership: Membership
    health: RoleHealth
    stop: threading.Event

    def beat(self) -> None:
        """Send the heartbeat; called often during a wait.

        Raises:
            FatalError: the broker has not answered for the retry budget.
        """
        self.health.turned()
        self.membership.keep_alive()

    def beat_or_stop(self) -> None:
        """Send the heartbeat, or end the wait.

        Raises:
            StopRequested: the worker is asked to stop.
            FatalError: the broker has not answered for the retry budget.
        """
        if self.stop.is_set():
            raise StopRequested
        self.beat()
