"""Reading manifests of finals, no further back than a question needs.

A manifest lies among the tables of its window, and no reader can fetch it alone. So the newest ones
are searched from the end of the snapshots topic backwards, and the topic is read from its start
only where counts do not suffice.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from calmstream.broker.transport import Partition, Reader, Record, Topics
from calmstream.common.clock import Clock
from calmstream.common.errors import ForeignRecord
from calmstream.consumer.runtime.foreign_records import ForeignRecordCounter, key_of
from calmstream.consumer.runtime.read_topics import Continuation, read_spans
from calmstream.estimators.plan import Plan
from calmstream.estimators.wire import snapshot
from calmstream.estimators.wire.snapshot import Kind, Manifest, Revision

_SETS = 4
"""Number of sets in the first step backwards: finals and totals of two windows."""
_FINALS = 2
"""Number of windows after which the search ends: two publishers may swap the order of two."""


class Final(NamedTuple):
    """What questions need of the manifest of a final window, which is far larger."""

    revision: Revision
    counts: bool  # Whether its counts were kept
    suspicious: bool  # Whether its raw counts look forged


class Manifests:
    """Finals of a snapshots topic. Not safe for use from several threads.

    Args:
        plan: the plan.
        where: the partition of its snapshots.
        reader: a reader that only one object uses at a time; it is assigned anew.
        topics: the administrator.
        clock: for the patience.
        patience_seconds: longest time without progress.
        foreign: counts the records that are skipped.

    Attributes:
        found: the finals that were read, by window.
        whole: whether the topic was read from its start.
    """

    def __init__(
        self,
        plan: Plan,
        where: Partition,
        reader: Reader,
        topics: Topics,
        *,
        clock: Clock,
        patience_seconds: float,
        foreign: ForeignRecordCounter,
    ) -> None:
        self.found: dict[int, Final] = {}
        self.whole = False
        self._plan = plan
        self._where = where
        self._reader = reader
        self._topics = topics
        self._clock = clock
        self._patience = patience_seconds
        self._foreign = foreign
        self._first = 0  # The lowest offset that was read
        self._rest = Continuation(reader, topics, where, clock, patience_seconds)

    def read_on(self) -> None:
        """Read on to the end of the topic; the first call begins with the newest finals."""
        if self._rest.position is None:
            self._search()
        self._take(self._rest.records())

    def read_whole(self) -> None:
        """Read what lies before; raises as :meth:`read_on`. Cost: that of the whole topic."""
        if not self.whole:
            self._read_back(self._start(), self._first)
            self.whole = True

    def _start(self) -> int:
        return self._topics.log_starts([self._where])[self._where]

    def _search(self) -> None:
        """Read backwards, in steps that double, until the newest finals were read."""
        start = self._start()
        first = end = self._topics.log_ends([self._where])[self._where]
        step = _SETS * (1 + len(self._plan.marginals))
        self.found = {}
        while first > start and len(self.found) < _FINALS:
            before = max(start, first - step)
            self._read_back(before, first)
            first, step = before, 2 * step
        self._first, self.whole = first, first == start
        self._rest.position = end

    def _read_back(self, first: int, end: int) -> None:
        """Read the records of a span of offsets; finals that were read before are newer."""
        newer, self.found = self.found, {}
        try:
            spans = {self._where: (first, end)}
            self._take(
                read_spans(self._reader, spans, self._clock, patience_seconds=self._patience)
            )
        except BaseException:
            self.found = newer
            raise
        self.found |= newer

    def _take(self, records: Iterable[Record]) -> None:
        for record in records:
            with self._foreign.reading(record):
                self._take_one(key_of(record), record.value)

    def _take_one(self, key: bytes, value: bytes | None) -> None:
        window, kind, is_manifest = snapshot.parse_key(key)
        if kind is not Kind.FINAL or not is_manifest or value is None:
            return
        found = snapshot.decode(value, self._plan)
        if not isinstance(found, Manifest) or found.key != key:
            raise ForeignRecord("a snapshot record under another key")
        suspicious = bool(found.poisoning.get("suspicious"))
        self.found[window] = Final(found.revision, found.counts, suspicious)
