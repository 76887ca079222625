"""Reading kept counts: which final windows have their counts, and these counts."""

from __future__ import annotations

import logging

from broker.clock import Clock
from broker.names import TopicNames
from broker.transport import Broker, Partition, Reader, Record, Topics
from consumer.runtime.foreign_records import ForeignRecordCounter, key_of
from consumer.runtime.read_topics import PATIENCE_SECONDS, EndCheck
from consumer.runtime.retry import RetryBudget
from estimators.errors import FatalError, ForeignRecord, MissingTopic, RecoverableError
from estimators.plan import Plan
from estimators.tally import Tally
from estimators.wire import counts, snapshot
from estimators.wire.snapshot import Kind, Manifest

_POLL_SECONDS = 0.2
_POLL_RECORDS = 2000
_LOG = logging.getLogger("calmstream.history")


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
        finals: manifests of final windows by number.
    """

    def __init__(
        self,
        plan: Plan,
        broker: Broker,
        names: TopicNames,
        clock: Clock,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        self.finals: dict[int, Manifest] = {}
        self._plan = plan
        self._names = names
        self._clock = clock
        self._patience = patience_seconds
        self._records: dict[int, dict[int, bytes]] = {}
        self._foreign = ForeignRecordCounter(_LOG.warning)
        self._read = [Partition(names.snapshots, 0), Partition(names.counts, 0)]
        self._started = False
        self._topics: Topics = broker.topics()
        self._reader: Reader = broker.reader()

    def refresh(self) -> None:
        """Read on to the ends of both topics.

        Raises:
            FatalError: a topic is missing.
            InvalidInput: a record of a newer version.
            RecoverableError: the broker does not answer.
        """
        if not self._started:
            self._start()
        check = EndCheck(self._reader, self._topics, self._read)
        budget = RetryBudget(self._clock, self._patience)
        while not check.update():
            records = self._reader.poll(_POLL_SECONDS, _POLL_RECORDS)
            for record in records:
                self._take(record)
            if records:
                budget.succeeded()
            elif budget.failed():
                raise RecoverableError(
                    f"reading {self._names.counts} makes no progress for {self._patience:g} s; "
                    "are its brokers up?"
                )

    def close(self) -> None:
        """Release the clients."""
        self._reader.close()
        self._topics.close()

    def newest(self) -> int | None:
        """Return the newest final window; None before the first."""
        return max(self.finals, default=None)

    def kept(self, window: int) -> bool:
        """Return whether the counts of all groups are there, at the final's own revision."""
        if window not in self.finals:
            return False
        records = self._records.get(window, {})
        found: tuple[int, ...] = ()
        for group in range(len(self._plan.groups)):
            if group not in records:
                return False
            found += counts.decode_header(self._plan, records[group]).revision
        return found == self.finals[window].revision

    def windows(self) -> list[int]:
        """Return the windows whose counts are kept, ascending."""
        return [window for window in sorted(self._records) if self.kept(window)]

    def tallies(self, window: int) -> tuple[list[Tally], list[Tally] | None]:
        """Return the tallies of a kept window and, if they are there, of the total through it."""
        records = self._records[window]
        found = [
            counts.decode_counts(self._plan, records[group])
            for group in range(len(self._plan.groups))
        ]
        totals = [one.total for one in found if one.total is not None]
        return [one.tally for one in found], totals if len(totals) == len(found) else None

    def _start(self) -> None:
        try:
            starts = self._topics.log_starts(self._read)
        except MissingTopic as error:
            raise FatalError(
                f"topic {self._names.snapshots} or {self._names.counts} does not exist: no counts "
                "are kept; create it: calmstream topics"
            ) from error
        self._reader.assign(self._read)
        for partition, offset in starts.items():
            self._reader.seek(partition, offset)
        self._started = True

    def _take(self, record: Record) -> None:
        try:
            if record.partition == self._read[0]:
                self._take_manifest(key_of(record), record.value)
            else:
                self._take_counts(key_of(record), record.value)
        except ForeignRecord as error:
            self._foreign.skip(record, error)

    def _take_manifest(self, key: bytes, value: bytes | None) -> None:
        window, kind, is_manifest = snapshot.parse_key(key)
        if kind is not Kind.FINAL or not is_manifest or value is None:
            return
        found = snapshot.decode(value)
        if not isinstance(found, Manifest) or found.plan != self._plan.digest:
            raise ForeignRecord("a manifest of another plan")
        self.finals[window] = found

    def _take_counts(self, key: bytes, value: bytes | None) -> None:
        window, group = counts.parse_key(key)
        if value is None:
            raise ForeignRecord("the counts topic holds a deletion; who else writes to it?")
        header = counts.decode_header(self._plan, value)
        if (header.window, header.group) != (window, group):
            raise ForeignRecord(f"counts of window {header.window} under another key")
        self._records.setdefault(window, {})[group] = value
