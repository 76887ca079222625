"""Limits the time for which a failing operation is repeated, in all loops of the service."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from calmstream.common.clock import Clock
from calmstream.common.errors import FatalError, RecoverableError

T = TypeVar("T")


class RetryBudget:
    """The maximum time for which one operation may fail without a success in between.

    It begins with the first failure, in `call` with the call: what is not attempted does not fail.
    """

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._seconds = seconds
        self._failing_since: float | None = None

    def succeeded(self) -> None:
        self._failing_since = None

    def failed(self) -> bool:
        """Note a failure; return whether the time is used up."""
        now = self._clock.monotonic()
        if self._failing_since is None:
            self._failing_since = now
        return now - self._failing_since >= self._seconds

    def note_failure(self, what: str, error: RecoverableError) -> None:
        """Note a failure of a call that is repeated; FatalError if the time is used up."""
        if self.failed():
            raise FatalError(f"{what} did not answer for {self._seconds:g} s: {error}") from error

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
                self.note_failure(what, error)
                self._clock.sleep(pause_seconds)
