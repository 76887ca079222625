"""Time, injected: the worker's own clock, which never decides what is counted."""

from __future__ import annotations

import time
from typing import Protocol

# Linux's boot clock goes on while the machine sleeps, which the plain monotonic clock does not; a
# worker that slept through its session must notice.
_BOOT = getattr(time, "CLOCK_BOOTTIME", None)


class Clock(Protocol):
    """What the service may know of time."""

    def now_ms(self) -> int:
        """Wall clock: milliseconds since the epoch; may jump either way."""

    def monotonic(self) -> float:
        """Seconds since some fixed moment; never goes back."""

    def sleep(self, seconds: float) -> None:
        """Block for so long."""


class SystemClock:
    """The machine's clocks."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Seconds, machine sleep included where the system can tell."""
        return time.monotonic() if _BOOT is None else time.clock_gettime(_BOOT)

    def sleep(self, seconds: float) -> None:
        """Block."""
        time.sleep(seconds)


class ManualClock:
    """A clock that moves only when told; for fault tests and demonstrations.

    Attributes:
        wall_ms: what :meth:`now_ms` returns.
        seconds: what :meth:`monotonic` returns.
    """

    def __init__(self, wall_ms: int = 0, seconds: float = 0.0) -> None:
        self.wall_ms = wall_ms
        self.seconds = seconds

    def now_ms(self) -> int:
        """The wall clock as set."""
        return self.wall_ms

    def monotonic(self) -> float:
        """The monotonic clock as set."""
        return self.seconds

    def sleep(self, seconds: float) -> None:
        """Advance both clocks; does not block."""
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        """Move both clocks on."""
        self.wall_ms += round(seconds * 1000)
        self.seconds += seconds
