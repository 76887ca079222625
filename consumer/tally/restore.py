"""Restores the counts of partitions from the state topic, after a check that log and state agree.

Checkpoints hold no batch ids. So the log is read again from ``resume_from`` to ``next_offset``, for
the ids of the batches that were accepted into open windows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import orjson
import structlog

from calmstream.broker.names import TopicNames
from calmstream.broker.transport import Partition, Reader, TopicInfo, Topics
from calmstream.common.errors import FatalError, ForeignRecord
from calmstream.consumer.runtime.context import TallyContext
from calmstream.consumer.runtime.foreign_records import ForeignRecordCounter, key_of
from calmstream.consumer.runtime.read_topics import PatientReader
from calmstream.consumer.tally.folding.admission import AdmissionControl
from calmstream.consumer.tally.folding.fold import PartitionFold
from calmstream.consumer.tally.log_ends import EndWatch, lost_records
from calmstream.estimators.plan import Plan
from calmstream.estimators.wire.state import PartitionState, decode_state, partition_key


class Restorer:
    """Creates folds from checkpoints."""

    def __init__(
        self,
        context: TallyContext,
        reader: Reader,
        topics: Topics,
        ends: EndWatch,
        keep_alive: Callable[[], None],
    ) -> None:
        self._plan = context.plan
        self._names = context.names
        self._topics = topics
        self._ends = ends
        self._reader = PatientReader(
            reader,
            topics,
            context.clock,
            patience_seconds=context.config.retry_seconds,
            keep_alive=keep_alive,
        )

    def restore(self, partitions: Collection[Partition]) -> dict[Partition, PartitionFold]:
        """Restore input partitions; counting continues at ``next_offset`` of each checkpoint."""
        infos = self._topics.describe(sorted({partition.topic for partition in partitions}))
        states = newest_states(self._plan, self._names, partitions, self._reader)
        # The ends are fetched after the states. So an end below a next_offset proves that the
        # broker has lost records.
        starts, ends = self._topics.log_starts(partitions), self._topics.log_ends(partitions)
        for p in partitions:
            check_log(p, states.get(p), infos.get(p.topic), starts[p], ends[p])
        self._check_times(states)
        admissions = self._read_ids(states)
        folds = {}
        for p in partitions:
            group = self._names.group_of(p.topic)
            if p in states:
                folds[p] = PartitionFold(self._plan, group, admissions[p], states[p])
            else:
                folds[p] = PartitionFold.start(self._plan, group, infos[p.topic].id)
        self._ends.note(ends)
        return folds

    def counted_everywhere(self) -> bool:
        """Return whether the state has every partition, read to its end, all windows closed."""
        inputs = self._names.inputs
        ends = self._topics.log_ends(inputs)
        states = newest_states(self._plan, self._names, inputs, self._reader)
        return len(states) == len(inputs) and all(
            state.closed_through >= self._plan.windows - 1 and state.next_offset >= ends[partition]
            for partition, state in states.items()
        )

    def _check_times(self, states: Mapping[Partition, PartitionState]) -> None:
        """Check that no record below ``next_offset`` is younger than the clock there."""
        after = self._topics.first_after({p: state.clock for p, state in states.items()})
        spans = {
            p: (offset, states[p].next_offset)
            for p, offset in after.items()
            if offset < states[p].next_offset
        }
        for chunk in self._reader.spans(spans):  # nothing is read if all are transaction markers
            state = states[chunk.partition]
            if int(chunk.timestamp.max()) > state.clock:
                raise FatalError(
                    f"{chunk.partition}: records below {state.next_offset}, the end of what was "
                    "counted, were appended later than that: the broker lost records and has new "
                    "ones in their place; restore its log, or count what is left into a new "
                    "output namespace"
                )

    def _read_ids(
        self, states: Mapping[Partition, PartitionState]
    ) -> dict[Partition, AdmissionControl]:
        """Read from ``resume_from`` to ``next_offset`` again, to find the ids in open windows."""
        admissions = {
            partition: AdmissionControl(
                self._plan, self._names.group_of(partition.topic), state.resume_clock
            )
            for partition, state in states.items()
        }
        spans = {p: (state.resume_from, state.next_offset) for p, state in states.items()}
        for chunk in self._reader.spans(spans):
            admissions[chunk.partition].replay(chunk)
        return admissions


def check_log(
    partition: Partition,
    state: PartitionState | None,
    info: TopicInfo | None,
    log_start: int,
    log_end: int,
) -> None:
    """Check that an input log is the one that was counted and still contains what is needed."""
    if info is None:
        raise FatalError(f"topic {partition.topic} does not exist; create it: calmstream topics")
    if state is None:
        if log_start > 0:
            raise FatalError(
                f"{partition}: the log starts at {log_start} and nothing was ever counted, so "
                "reports are missing; lengthen retention.ms and collect under a new plan of the "
                "same lineage"
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
            "were deleted before a checkpoint covered them; lengthen retention.ms and collect "
            "under a new plan of the same lineage"
        )
    if log_end < state.next_offset:
        raise lost_records(partition, log_end, state.next_offset)


def newest_states(
    plan: Plan, names: TopicNames, inputs: Collection[Partition], reader: PatientReader
) -> dict[Partition, PartitionState]:
    """Return the checkpoint with the largest ``next_offset`` of each input partition that has one.

    Only these are decoded, to save time, unless one of them is foreign.
    """

    def decoded(partition: Partition, value: bytes) -> PartitionState:
        return decode_state(plan, names.group_of(partition.topic), value)

    newest = _newest(names, inputs, reader, lambda _, value: _next_offset(value))
    try:
        return {p: decoded(p, value) for p, value in newest.items()}
    except ForeignRecord:
        newest = _newest(names, inputs, reader, lambda p, value: decoded(p, value).next_offset)
        return {p: decoded(p, value) for p, value in newest.items()}


def _newest(
    names: TopicNames,
    inputs: Collection[Partition],
    reader: PatientReader,
    next_offset: Callable[[Partition, bytes], int],
) -> dict[Partition, bytes]:
    keys = {partition_key(names.group_of(p.topic), p.number): p for p in inputs}
    state = {Partition(names.state, p.number) for p in inputs}
    best: dict[Partition, tuple[int, bytes]] = {}
    foreign = ForeignRecordCounter(structlog.get_logger("calmstream.tally").warning)
    for record in reader.whole(state):
        with foreign.reading(record):
            partition = keys.get(key_of(record))
            if partition is None or record.value is None:
                continue
            if record.partition.number != partition.number:
                continue
            offset = next_offset(partition, record.value)
            if partition not in best or offset > best[partition][0]:
                best[partition] = (offset, record.value)
    return {partition: value for partition, (_, value) in best.items()}


def _next_offset(value: bytes) -> int:
    """Return the ``next_offset`` of a state record without decoding its counts."""
    try:
        return int(orjson.loads(value)["next_offset"])
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError, OverflowError):
        raise ForeignRecord("the state topic holds a value that is no state record") from None
