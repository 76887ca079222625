"""Limits the time for which a failing operation is repeated, in all loops of the service."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from calmstream.common.clock import Clock
from calmstream.common.errors import FatalError, RecoverableError

T = TypeVar("T")


class RetryBudget:
    """The maximum time for which one operation may fail without a success in between.

    It begins with the first failure, so what is not attempted for an hour has not failed so long.
    """

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._seconds = seconds
        self._failing_since: float | None = None

    @property
    def failing_seconds(self) -> float:
        since = self._failing_since
        return 0.0 if since is None else self._clock.monotonic() - since

    def succeeded(self) -> None:
        self._failing_since = None

    def failed(self, since: float | None = None) -> bool:
        if self._failing_since is None:
            self._failing_since = self._clock.monotonic() if since is None else since
        return self.failing_seconds >= self._seconds


def retry_call(
    what: str,
    call: Callable[[], T],
    *,
    clock: Clock,
    seconds: float,
    pause_seconds: float,
    failed: Callable[[RecoverableError], None],
) -> T:
    """Repeat a call until it succeeds, and return its result. Blocks."""
    budget, began = RetryBudget(clock, seconds), clock.monotonic()
    while True:
        try:
            return call()
        except RecoverableError as error:
            failed(error)
            if budget.failed(since=began):
                raise FatalError(f"{what} did not answer for {seconds:g} s: {error}") from error
            clock.sleep(pause_seconds)
