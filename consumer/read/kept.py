"""Reads kept counts: which final windows have their counts, and these counts."""

from __future__ import annotations

import contextlib
import logging
from itertools import chain

from calmstream.broker.names import TopicNames
from calmstream.broker.transport import Broker, Partition
from calmstream.common.clock import Clock
from calmstream.common.errors import ForeignRecord
from calmstream.consumer.read.ranges import NoAnswer
from calmstream.consumer.runtime.foreign_records import ForeignRecordCounter, key_of
from calmstream.consumer.runtime.read_topics import TopicReader
from calmstream.estimators.plan import Plan
from calmstream.estimators.tally import Tally
from calmstream.estimators.tracking.tracker import Current, Tracker
from calmstream.estimators.wire import counts
from calmstream.estimators.wire.snapshot import Revision

_LOG = logging.getLogger("calmstream.history")


class KeptCounts:
    """The counts of final windows in the counts topic, compressed; for one thread.

    Counts are written of windows that all partitions have closed: one with all groups is final.
    """

    def __init__(self, plan: Plan, broker: Broker, names: TopicNames, clock: Clock) -> None:
        self._plan = plan
        # By window and group the header of a record and its bytes.
        self._records: dict[int, dict[int, tuple[counts.CountsHeader, bytes]]] = {}
        self._foreign = ForeignRecordCounter(_LOG.warning)
        # What `current` follows, and the windows that it has, by their revision.
        self._tracker: Tracker | None = None
        self._added: dict[int, Revision] = {}
        self._topic = TopicReader(
            broker,
            [Partition(names.counts, 0)],
            clock,
            missing="the plan was retired with its counts, or has none yet (create it: calmstream "
            "topics)",
        )
        self.close = self._topic.close

    def refresh(self) -> None:
        """Read on to the end of the topic. Cost of the first call: all its records."""
        for record in self._topic.to_end():
            with self._foreign.reading(record):
                header = counts.read_record(self._plan, key_of(record), record.value)
                assert record.value is not None
                self._records.setdefault(header.window, {})[header.group] = header, record.value

    def kept(self, window: int) -> bool:
        return len(self._records.get(window, ())) == len(self._plan.groups)

    def windows(self) -> list[int]:
        return [window for window in sorted(self._records) if self.kept(window)]

    def revision(self, window: int) -> Revision:
        """Return the revision of a window: those of its groups, one after another."""
        records = self._records.get(window, {})
        return tuple(chain.from_iterable(records[group][0].revision for group in sorted(records)))

    def suspicious(self, window: int) -> bool:
        return any(header.suspicious for header, _ in self._records.get(window, {}).values())

    def tallies(self, window: int) -> tuple[list[Tally], list[Tally]]:
        """Return the tallies of a window, and those of all windows through it."""
        if not self.kept(window):
            raise NoAnswer(
                "not_kept",
                f"window {window} is not kept: its counts are missing from the counts topic",
            )
        records = self._records[window]
        found = [
            counts.decode_counts(self._plan, records[group][1])
            for group in range(len(self._plan.groups))
        ]
        return [one.tally for one in found], [one.total for one in found]

    def current(self, window: int) -> Current:
        """Return what is known of a kept window from all kept windows through it.

        The first question takes time for all windows, later ones for those that are new.
        """
        wanted = {w: self.revision(w) for w in self.windows() if w <= window}
        changed = any(wanted.get(w) != revision for w, revision in self._added.items())
        if self._tracker is None or changed:
            # An earlier window was asked for, or a window was counted again.
            self._tracker, self._added = Tracker(self._plan), {}
        for number in sorted(wanted.keys() - self._added.keys()):
            # Damaged counts are left out, as a publisher does.
            with contextlib.suppress(ForeignRecord):
                self._tracker.add(number, self.tallies(number)[0])
            self._added[number] = wanted[number]
        return self._tracker.current()
