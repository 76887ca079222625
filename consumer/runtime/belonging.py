"""Whether a role is in its consumer group, in words for its health."""

from __future__ import annotations

from calmstream.common.clock import Clock
from calmstream.consumer.runtime.health import AWAY_SECONDS


class Belonging:
    """Turns what a group reader knows of its membership into a reason not to be ready."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since = clock.monotonic()
        self._joined_once = False

    def missing(self, joined: bool) -> str:
        """Return why the role is not ready; empty in the group, and for a short time outside it."""
        now = self._clock.monotonic()
        if joined:
            self._since, self._joined_once = now, True
        away = now - self._since
        if away > AWAY_SECONDS:
            return f"outside its consumer group for {away:.0f} s: is the group's coordinator up?"
        return "" if self._joined_once else "joining"
