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

    def failed(self) -> bool:
        if self._failing_since is None:
            self._failing_since = self._clock.monotonic()
        return self.failing_seconds >= self._seconds

    def call(
        self,
        what: str,
        call: Callable[[], T],
        *,
        pause_seconds: float,
        failed: Callable[[RecoverableError], None] = lambda _: None,
    ) -> T:
        """Repeat a call until it succeeds, and return its result. Blocks."""
        self._failing_since = self._clock.monotonic()
        while True:
            try:
                return call()
            except RecoverableError as error:
                failed(error)
                if self.failed():
                    message = f"{what} did not answer for {self._seconds:g} s: {error}"
                    raise FatalError(message) from error
                self._clock.sleep(pause_seconds)
