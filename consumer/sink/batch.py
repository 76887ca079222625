"""Complete sets of one plan that wait to be stored together."""

from __future__ import annotations

from collections.abc import Callable

from calmstream.broker.names import TopicNames
from calmstream.broker.transport import Record
from calmstream.common.clock import Clock
from calmstream.consumer.sink.stored import StoredSet, stored_set
from calmstream.consumer.subscribe.set_reader import SetReader
from calmstream.estimators.plan import Plan

BATCH_ROWS = 1 << 17
"""Number of cells after which sets are stored without waiting for the end of the topic."""

_BATCH_SETS = 500
_BATCH_SECONDS = 2.0


class SetBatch:
    """Makes sets of the records of a snapshots topic, and keeps them until they are stored.

    Attributes:
        sets: the sets, in the order of their arrival.
    """

    def __init__(
        self,
        plan: Plan,
        names: TopicNames,
        clock: Clock,
        warn: Callable[[str], object],
        rows: int = BATCH_ROWS,
    ) -> None:
        self.sets: list[StoredSet] = []
        self._namespace = names.output_namespace or names.namespace
        self._clock = clock
        self._most_rows = rows
        self._reader = SetReader(plan, warn)
        self._rows = 0
        self._since = 0.0

    def take(self, record: Record) -> bool:
        """Take the next record of the topic; return whether it completes a set."""
        snapshot = self._reader.read(record)
        if snapshot is None:
            return False
        found = stored_set(self._namespace, snapshot)
        if not self.sets:
            self._since = self._clock.monotonic()
        self.sets.append(found)
        self._rows += found.rows
        return True

    def full(self) -> bool:
        """Return whether the sets should be stored now, whatever else is in the topic."""
        return bool(self.sets) and (
            len(self.sets) >= _BATCH_SETS
            or self._rows >= self._most_rows
            or self._clock.monotonic() - self._since >= _BATCH_SECONDS
        )

    def clear(self) -> None:
        """Forget the sets: they are stored."""
        self.sets, self._rows = [], 0
