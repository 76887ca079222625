"""The ids of accepted batches, by window, and where a restart must read to find them again."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from calmstream.consumer.tally.folding.batch_ids import BatchIds, Ids, Words


class AcceptedBatches:
    """The ids of the accepted batches of open windows, and the first accepted batch of each.

    Windows are identified by their number, also called period. Memory: at most 24 bytes for each
    accepted batch of an open window.
    """

    def __init__(self) -> None:
        self._ids: dict[int, BatchIds] = {}
        self._first: dict[int, tuple[int, int]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._ids.values()))

    def known(self, period: int, ids: Ids, mixed: Words) -> NDArray[np.bool_]:
        """Return whether each of these ids, with its hash, was accepted into this window."""
        kept = self._ids.get(period)
        return np.zeros(len(ids), np.bool_) if kept is None else kept.contains(ids, mixed)

    def add_all(self, period: int, ids: Ids, mixed: Words, offset: int, clock_before: int) -> None:
        """Add different new ids with their hashes; offset and clock are those of the first one."""
        self._begin(period, offset, clock_before).add_all(ids, mixed)

    def _begin(self, period: int, offset: int, clock_before: int) -> BatchIds:
        """Return the ids of a window; note the first accepted batch of a new one."""
        ids = self._ids.get(period)
        if ids is None:
            ids = self._ids[period] = BatchIds()
            self._first[period] = (offset, clock_before)
        return ids

    def forget(self, period: int) -> None:
        """Forget the ids of a closed window; from now on a batch of this window is late anyway."""
        self._ids.pop(period, None)
        self._first.pop(period, None)

    def accepted(self, period: int) -> int:
        """Return the number of batches that were accepted into this window."""
        return len(self._ids.get(period, ()))

    def resume_point(self) -> tuple[int, int] | None:
        """Return the offset of the first accepted batch of all open windows, and the prior clock.

        A restart must read the log from there again to find all ids. None without such a batch.
        """
        return min(self._first.values(), default=None)

    def snapshot(self) -> dict[int, frozenset[bytes]]:
        return {period: frozenset(ids) for period, ids in self._ids.items()}
