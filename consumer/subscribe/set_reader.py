"""Records of a snapshots topic in, complete sets out; what calmstream did not write is skipped."""

from __future__ import annotations

from collections.abc import Callable

from calmstream.broker.transport import Record
from calmstream.consumer.runtime.foreign_records import ForeignRecordCounter, key_of
from calmstream.consumer.subscribe.assembler import Snapshot, SnapshotAssembler
from calmstream.estimators.plan import Plan


class SetReader:
    """Assembles the sets of one plan. Not safe for use from several threads.

    Args:
        plan: the plan.
        warn: writes a message to the log, see `ForeignRecordCounter`.
    """

    def __init__(self, plan: Plan, warn: Callable[[str], object]) -> None:
        self._assembler = SnapshotAssembler(plan)
        self._foreign = ForeignRecordCounter(warn)

    def read(self, record: Record) -> Snapshot | None:
        """Take the next record; return the set that it completes, if any."""
        found = None
        with self._foreign.reading(record):
            found = self._assembler.read(key_of(record), record.value)
        return found  # noqa: RET504 - None where the record is skipped
