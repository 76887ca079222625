"""Restoring input partitions from the state topic, after checking that log and state agree."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

import orjson
import structlog

from broker.clock import Clock
from broker.names import TopicNames
from broker.transport import Partition, Reader, Record, TopicInfo, Topics
from consumer.runtime.foreign_records import ForeignRecords
from consumer.runtime.read_topics import read_spans, read_whole
from consumer.tally.folding.admission import AdmissionControl
from consumer.tally.folding.fold import PartitionFold
from estimators.errors import FatalError, ForeignRecord
from estimators.plan import Plan
from estimators.wire.state import PartitionState, decode_state, partition_key


class Restored(NamedTuple):
    """A restored input partition.

    Attributes:
        fold: its counts, at the checkpoint.
        log_end: the end of its log at the time of the restore.
    """

    fold: PartitionFold
    log_end: int


class Restorer:
    """Makes folds from the state records that the last owner wrote.

    Args:
        plan: the plan.
        names: of its topics.
        reader: self-assigning; used by one restore at a time.
        topics: for log starts, log ends and topic ids.
        clock: for ``patience_seconds``.
        patience_seconds: a read that does not advance for this long fails.
        keep_alive: called at every poll; keeps the group membership, and may raise to end the
            restore.
    """

    def __init__(
        self,
        plan: Plan,
        names: TopicNames,
        reader: Reader,
        topics: Topics,
        *,
        clock: Clock,
        patience_seconds: float,
        keep_alive: Callable[[], None],
    ) -> None:
        self._plan = plan
        self._names = names
        self._reader = reader
        self._topics = topics
        self._clock = clock
        self._patience = patience_seconds
        self._keep_alive = keep_alive

    def restore(self, partitions: Collection[Partition]) -> dict[Partition, Restored]:
        """Restore input partitions, each at its checkpoint's next_offset.

        Each state partition that is needed is read once. Cost: the size of these state partitions
        plus the input from resume_from to next_offset.

        Raises:
            FatalError: the log and the state do not agree; no record is skipped to hide that.
            RecoverableError: the broker does not answer; the whole call can be repeated.
        """
        infos = self._topics.describe(sorted({partition.topic for partition in partitions}))
        states = self._read_states(partitions)
        # Fetched after the states, so that an end below a next_offset can only be a lost log.
        starts, ends = self._topics.log_starts(partitions), self._topics.log_ends(partitions)
        for partition in partitions:
            check_log(
                partition,
                states.get(partition),
                infos.get(partition.topic),
                starts[partition],
                ends[partition],
            )
        admissions = self._read_ids(states)
        return {
            partition: Restored(self._fold(partition, states, admissions, infos), ends[partition])
            for partition in partitions
        }

    def _fold(
        self,
        partition: Partition,
        states: Mapping[Partition, PartitionState],
        admissions: Mapping[Partition, AdmissionControl],
        infos: Mapping[str, TopicInfo],
    ) -> PartitionFold:
        group = self._names.group_of(partition.topic)
        if partition not in states:
            return PartitionFold.start(self._plan, group, infos[partition.topic].id)
        return PartitionFold(self._plan, group, admissions[partition], states[partition])

    def _read_states(self, partitions: Collection[Partition]) -> dict[Partition, PartitionState]:
        """Return the partition record with the largest next_offset of each partition.

        A record written late by a former owner has a smaller one. Only the records that are used
        are decoded; if one of them is foreign, the topic is read again and every record is decoded.
        """
        best = self._newest(partitions, _next_offset)
        try:
            return {p: self._decoded(p, value) for p, value in best.items()}
        except ForeignRecord:
            best = self._newest(partitions, lambda p, value: self._decoded(p, value).next_offset)
            return {p: self._decoded(p, value) for p, value in best.items()}

    def _decoded(self, partition: Partition, value: bytes) -> PartitionState:
        return decode_state(self._plan, self._names.group_of(partition.topic), value)

    def _newest(
        self, partitions: Collection[Partition], next_offset: Callable[[Partition, bytes], int]
    ) -> dict[Partition, bytes]:
        """Return the record with the largest ``next_offset`` of each; skip foreign records."""
        wanted = {
            (self._state_partition(p), partition_key(self._names.group_of(p.topic), p.number)): p
            for p in partitions
        }
        best: dict[Partition, tuple[int, bytes]] = {}
        foreign = ForeignRecords(structlog.get_logger("calmstream.tally").warning)

        def collect(record: Record) -> None:
            partition = wanted.get((record.partition, record.key or b""))
            if partition is None or record.value is None:
                return
            try:
                offset = next_offset(partition, record.value)
            except ForeignRecord as error:
                foreign.skip(record, error)
                return
            if partition not in best or offset > best[partition][0]:
                best[partition] = (offset, record.value)

        state = {self._state_partition(p) for p in partitions}
        for record in read_whole(
            self._reader,
            self._topics,
            state,
            self._clock,
            patience_seconds=self._patience,
            keep_alive=self._keep_alive,
        ):
            collect(record)
        return {partition: value for partition, (_, value) in best.items()}

    def _state_partition(self, partition: Partition) -> Partition:
        return Partition(self._names.state, self._names.state_partition(partition.number))

    def _read_ids(
        self, states: Mapping[Partition, PartitionState]
    ) -> dict[Partition, AdmissionControl]:
        """Read again from resume_from to next_offset, for the ids of open windows only."""
        admissions = {
            partition: AdmissionControl(
                self._plan, self._names.group_of(partition.topic), state.resume_clock
            )
            for partition, state in states.items()
        }
        spans = {p: (state.resume_from, state.next_offset) for p, state in states.items()}
        for record in read_spans(
            self._reader,
            spans,
            self._clock,
            patience_seconds=self._patience,
            keep_alive=self._keep_alive,
        ):
            _replay(admissions[record.partition], record, spans[record.partition][1])
        return admissions


def check_log(
    partition: Partition,
    state: PartitionState | None,
    info: TopicInfo | None,
    log_start: int,
    log_end: int,
) -> None:
    """Check that the input log is the one that was counted, and still holds what is needed.

    Raises:
        FatalError: with the remedy.
    """
    if info is None:
        raise FatalError(f"topic {partition.topic} does not exist; create it: calmstream topics")
    if state is None:
        if log_start > 0:
            raise FatalError(
                f"{partition}: the log starts at {log_start} and nothing was ever counted, so "
                "reports are missing; if the state topic was lost, count into a new output "
                "namespace or make a new plan, and lengthen retention.ms"
            )
        return
    if info.id != state.topic_id:
        raise FatalError(
            f"{partition}: the topic was deleted and created again (id {info.id}, the counted one "
            f"had {state.topic_id}); count it into a new output namespace"
        )
    if log_start > state.resume_from:
        raise FatalError(
            f"{partition}: the log starts at {log_start}, needed from {state.resume_from}: reports "
            "were deleted before a checkpoint covered them; lengthen retention.ms and count into "
            "a new output namespace or make a new plan"
        )
    if log_end < state.next_offset:
        raise FatalError(
            f"{partition}: the log ends at {log_end}, but it was counted up to "
            f"{state.next_offset}: the broker lost records; restore its log, or count what is left "
            "into a new output namespace"
        )


def _replay(admission: AdmissionControl, record: Record, next_offset: int) -> None:
    """Find the id of a record again if it was folded before ``next_offset``.

    A batch of records that cannot be decoded can begin below that offset and end above it: an
    earlier release read such a batch up to the first bad record. The ids of the records before it
    are lost. Their time is not: all records of a batch have the same append time.
    """
    if record.offset < next_offset:
        admission.replay(record)
    else:
        admission.advance(record.timestamp)


def _next_offset(_partition: Partition, value: bytes) -> int:
    """Return next_offset of a partition record without decoding its counts.

    Raises:
        ForeignRecord: the value is no partition record.
    """
    try:
        return int(orjson.loads(value)["next_offset"])
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError, OverflowError):
        raise ForeignRecord("the state topic holds a value that is no state record") from None
