"""How long each owned partition has neither advanced nor been at its end."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from broker.transport import Partition


class Progress:
    """Keeps positions, and returns which partitions do not advance. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._seen: dict[Partition, tuple[int, float]] = {}

    def drop(self, partitions: Collection[Partition]) -> None:
        """Forget released partitions."""
        for partition in partitions:
            self._seen.pop(partition, None)

    def note(self, positions: Mapping[Partition, tuple[int, bool]], now: float) -> None:
        """Note the position of each owned partition, and whether that is its end."""
        for partition, (position, at_end) in positions.items():
            seen = self._seen.get(partition)
            if at_end or seen is None or seen[0] != position:
                self._seen[partition] = (position, now)

    def stalled(self, seconds: float, now: float) -> list[Partition]:
        """Return partitions that have neither advanced nor been at their end so long, sorted."""
        return sorted(p for p, (_, since) in self._seen.items() if now - since > seconds)
