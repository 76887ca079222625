"""Clocks, passed in as arguments, so that tests control the time.

No clock of this module decides what is counted: only the broker's append times do.
"""

from __future__ import annotations

import threading
import time
from typing import Protocol

# Linux's boot clock also advances while the machine sleeps; the plain monotonic clock does not. A
# worker on a machine that slept for longer than the group session must notice it.
_BOOT = getattr(time, "CLOCK_BOOTTIME", None)
MAX_INSTANT = 10_000_000_000  # latest time in seconds since the epoch; it is in the year 2286


def wall_clock() -> int:
    return time.time_ns() // 1_000_000


def utc(second: int) -> str:
    """Return the time in UTC, or the number itself before the epoch and after `MAX_INSTANT`."""
    named = 0 <= second <= MAX_INSTANT
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(second)) if named else str(second)


class Clock(Protocol):
    """The source of time of a service or a gateway."""

    def now_ms(self) -> int:
        """Return the wall clock in milliseconds since the epoch; it may jump forward or back."""

    def monotonic(self) -> float:
        """Return the seconds since an arbitrary fixed moment; the value never decreases."""

    def sleep(self, seconds: float) -> None:
        """Block for this many seconds; may return early when the process is asked to stop."""


class SystemClock:
    """The machine's clocks."""

    def __init__(self, stop: threading.Event | None = None) -> None:
        self._stop = threading.Event() if stop is None else stop

    def now_ms(self) -> int:
        return wall_clock()

    def monotonic(self) -> float:
        return time.monotonic() if _BOOT is None else time.clock_gettime(_BOOT)

    def sleep(self, seconds: float) -> None:
        self._stop.wait(max(seconds, 0.0))
