"""Measures for how long each owned partition has neither advanced nor been at its end."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from calmstream.broker.transport import Partition


class Progress:
    """Keeps the position of each partition and the time at which the position was reached.

    Times are monotonic, in seconds.
    """

    def __init__(self) -> None:
        self._since: dict[Partition, tuple[int, float]] = {}

    def drop(self, partitions: Collection[Partition]) -> None:
        """Forget partitions that the worker does not own any more."""
        for partition in partitions:
            self._since.pop(partition, None)

    def note(self, positions: Mapping[Partition, tuple[int, bool]], now: float) -> None:
        """Note the position of each owned partition, and whether it is the end of the log."""
        for partition, (position, at_end) in positions.items():
            previous = self._since.get(partition)
            if at_end or previous is None or previous[0] != position:
                self._since[partition] = (position, now)

    def stalled(self, seconds: float, now: float) -> list[Partition]:
        """Return the partitions that have stood still, not at their end, for this time; sorted."""
        return sorted(p for p, (_, since) in self._since.items() if now - since > seconds)
