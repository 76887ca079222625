"""A clock that tests move."""

from __future__ import annotations


class ManualClock:
    """A clock that moves only when the caller moves it."""

    def __init__(self, wall_ms: int = 0, seconds: float = 0.0) -> None:
        self.wall_ms = wall_ms
        self.seconds = seconds

    def now_ms(self) -> int:
        return self.wall_ms

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        """Advance both clocks; does not block."""
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        self.wall_ms += round(seconds * 1000)
        self.seconds += seconds
