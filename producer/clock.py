"""Time as a thing that is handed in, so that tests own it."""

from __future__ import annotations

import threading
import time
from typing import Protocol


def wall_clock() -> int:
    """Milliseconds since the epoch, as the operating system believes."""
    return time.time_ns() // 1_000_000


class Clock(Protocol):
    """The time that a producer sees."""

    def now(self) -> int:
        """Milliseconds since the epoch; may jump."""

    def monotonic(self) -> float:
        """Seconds since some moment; never goes back."""

    def sleep(self, seconds: float) -> None:
        """Let time pass; may return early when the process is asked to stop."""


class SystemClock:
    """The machine's clock; a sleep ends at once when ``stop`` is set."""

    def __init__(self, stop: threading.Event | None = None) -> None:
        self._stop = stop or threading.Event()

    def now(self) -> int:
        """See :class:`Clock`."""
        return wall_clock()

    def monotonic(self) -> float:
        """See :class:`Clock`."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """See :class:`Clock`."""
        self._stop.wait(max(seconds, 0.0))
