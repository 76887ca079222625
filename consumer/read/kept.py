"""Reading kept counts: which final windows have their counts, and these counts.

A final's counts are those of all groups at the final's own revision. For most windows the counts
topic shows that alone; manifests of old windows are read only where it does not.
"""

from __future__ import annotations

import logging
from itertools import chain
from typing import NamedTuple

from calmstream.broker.names import TopicNames
from calmstream.broker.transport import Broker, Partition, Reader, Record, Topics
from calmstream.common.clock import Clock
from calmstream.common.errors import MissingTopic
from calmstream.consumer.read.manifests import Final, Manifests
from calmstream.consumer.runtime.foreign_records import ForeignRecordCounter, key_of
from calmstream.consumer.runtime.read_topics import PATIENCE_SECONDS, Continuation
from calmstream.estimators.analysis.poisoning import examine
from calmstream.estimators.plan import Plan
from calmstream.estimators.tally import Tally
from calmstream.estimators.wire import counts
from calmstream.estimators.wire.changes import ChangesRecord, decode_changes, is_changes_key
from calmstream.estimators.wire.snapshot import Revision

_LOG = logging.getLogger("calmstream.history")


class _Record(NamedTuple):
    """Counts of one window and group as they are in the topic, with parts of their header."""

    revision: Revision
    suspicious: bool | None
    value: bytes


class KeptCounts:
    """The final windows of a plan, and their counts as they are in the topic.

    Holds the compressed records; one window is decoded at a time. Not safe for use from several
    threads.

    Args:
        plan: the plan.
        broker: hands out the clients; stays open.
        names: of the plan's topics.
        clock: for the patience.
        patience_seconds: longest time without progress.

    Attributes:
        tests: records of tests of change by window, also of windows whose final was replaced.
    """

    def __init__(
        self,
        plan: Plan,
        broker: Broker,
        names: TopicNames,
        clock: Clock,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        self.tests: dict[int, ChangesRecord] = {}
        self._plan = plan
        self._names = names
        self._records: dict[int, dict[int, _Record]] = {}
        self._suspicious: dict[tuple[int, Revision], bool] = {}
        self._foreign = ForeignRecordCounter(_LOG.warning)
        self._where = Partition(names.counts, 0)
        self._topics: Topics = broker.topics()
        self._reader: Reader = broker.reader()
        self._counts = Continuation(
            self._reader, self._topics, self._where, clock, patience_seconds
        )
        self._manifests = Manifests(
            plan,
            Partition(names.snapshots, 0),
            self._reader,
            self._topics,
            clock=clock,
            patience_seconds=patience_seconds,
            foreign=self._foreign,
        )

    def refresh(self) -> None:
        """Read on to the ends of both topics.

        One at a time, because the client waits for records of partitions that have none before it
        fetches again from the others. Manifests first: the counts that a manifest names were
        written before it.

        Cost: all records of the counts topic, and the newest ones of the snapshots topic.
        """
        try:
            if self._counts.position is None:
                self._counts.position = self._topics.log_starts([self._where])[self._where]
            self._manifests.read_on()
            for record in self._counts.records():
                self._take(record)
        except MissingTopic as error:
            raise MissingTopic(
                f"topic {self._names.counts} or {self._names.snapshots} does not exist: the "
                "plan was retired with its counts, or has none yet (create it: calmstream topics)"
            ) from error

    def close(self) -> None:
        """Release the clients."""
        self._reader.close()
        self._topics.close()

    def newest(self) -> int | None:
        """Return the newest final window; None before the first."""
        return max(self._manifests.found, default=None)

    def final(self, window: int) -> Final | None:
        """Return what is known of a final window; None if it is not final.

        Cost: of a window without counts, once, that of the whole snapshots topic.
        """
        if self.kept(window):
            found = self._manifests.found.get(window)
            return found or Final(self._revision(window), True, self._looks_forged(window))
        newest = self.newest()
        if newest is not None and window < newest and window not in self._manifests.found:
            self._manifests.read_whole()
        return self._manifests.found.get(window)

    def kept(self, window: int) -> bool:
        """Return whether the counts of all groups are there, at the final's own revision.

        Raises as :meth:`final`.
        """
        newest = self.newest()
        if newest is None or window > newest or window not in self._records:
            return False
        if window not in self._manifests.found:
            if self._coherent(window):
                return True
            self._manifests.read_whole()
        final = self._manifests.found.get(window)
        return final is not None and self._revision(window) == final.revision

    def windows(self) -> list[int]:
        """Return the windows whose counts are kept, ascending; raises as :meth:`final`."""
        return [window for window in sorted(self._records) if self.kept(window)]

    def tallies(self, window: int) -> tuple[list[Tally], list[Tally] | None]:
        """Return the tallies of a kept window and, if they are there, of the total through it."""
        records = self._records[window]
        found = [
            counts.decode_counts(self._plan, records[group].value)
            for group in range(len(self._plan.groups))
        ]
        totals = [one.total for one in found if one.total is not None]
        return [one.tally for one in found], totals if len(totals) == len(found) else None

    def _revision(self, window: int) -> Revision:
        """Return the revisions of the groups that are there, one after another."""
        records = self._records.get(window, {})
        return tuple(chain.from_iterable(records[group].revision for group in sorted(records)))

    def _coherent(self, window: int) -> bool:
        """Return whether counts are complete and fit those of the windows beside them.

        Counts are written only of final windows, and a log closes a window at one revision only,
        at or after that of the window before. So such counts are those of the final, and no
        manifest is needed.
        """
        own = self._revision(window)
        slots = len(self._plan.groups) * self._plan.partitions
        before, after = self._revision(window - 1), self._revision(window + 1)
        return (
            len(own) == slots
            and (len(before) < slots or all(map(int.__le__, before, own)))
            and (len(after) < slots or all(map(int.__le__, own, after)))
        )

    def _looks_forged(self, window: int) -> bool:
        """Return what the final's manifest says; of records that do not say it, by a test."""
        noted = self._records[window][0].suspicious
        if noted is not None:
            return noted
        place = (window, self._revision(window))
        if place not in self._suspicious:
            tallies, _ = self.tallies(window)
            reports = any(tally.reports for tally in tallies)
            self._suspicious[place] = reports and examine(self._plan, tallies).suspicious
        return self._suspicious[place]

    def _take(self, record: Record) -> None:
        with self._foreign.reading(record):
            self._take_counts(key_of(record), record.value)

    def _take_counts(self, key: bytes, value: bytes | None) -> None:
        if is_changes_key(key):
            found = decode_changes(self._plan, key, value)
            self.tests[found.window] = found
            return
        header = counts.read_record(self._plan, key, value)
        assert value is not None
        own = self._records.setdefault(header.window, {})
        own[header.group] = _Record(header.revision, header.suspicious, value)
