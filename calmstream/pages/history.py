"""The course of a table's cells over the latest windows, one line per cell."""

from __future__ import annotations

from collections.abc import Sequence

from calmstream.consumer.subscribe.assembler import Snapshot
from calmstream.estimators.wire.snapshot import Kind

WINDOWS = 16
"""Number of windows that a line shows."""

_LEVELS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float | None], scale: float) -> str:
    """Return one character per window, oldest first; a space for a window without table."""
    top = len(_LEVELS) - 1
    return "".join(
        " " if value is None else _LEVELS[min(max(round(value / scale * top), 0), top)]
        for value in values
    )


class HistoryLines:
    """The final snapshots of the latest windows, for lines through them."""

    def __init__(self) -> None:
        self._finals: dict[int, Snapshot] = {}

    def note(self, snapshot: Snapshot) -> None:
        """Keep a final snapshot and drop windows that are too old."""
        if snapshot.kind is Kind.FINAL:
            self._finals[snapshot.window] = snapshot
            for window in sorted(self._finals)[:-WINDOWS]:
                del self._finals[window]

    def before(self, snapshot: Snapshot) -> list[Snapshot]:
        """Return the finals up to this snapshot's window, and the snapshot if it is early."""
        kept = [self._finals[w] for w in sorted(self._finals) if w <= snapshot.window]
        if snapshot.kind is Kind.EARLY:
            kept.append(snapshot)
        return kept[-WINDOWS:]
