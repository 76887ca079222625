"""Makes the records that a worker writes through its outbox; ticks are in their own module."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from calmstream.broker.topic_facts import MAX_DEAD_LETTER_BYTES
from calmstream.broker.transport import Partition, Record
from calmstream.common.errors import Rejection
from calmstream.consumer.metrics import tally as m
from calmstream.consumer.runtime.context import TallyContext
from calmstream.consumer.tally.folding.fold import PartitionFold
from calmstream.consumer.tally.writing.outbox import Write, WriteOutbox
from calmstream.estimators.wire.dead_letter import DeadLetter, content_hash
from calmstream.estimators.wire.state import (
    ClosedWindow,
    closed_key,
    encode_closed,
    encode_state,
    partition_key,
)

MAX_KEPT_BYTES = MAX_DEAD_LETTER_BYTES // 4
"""Maximum number of bytes that are kept of a value, and of a key. The rest stays in the log, where
offset and hash identify the record."""

KEPT_PER_REASON = 1000
"""Maximum number of dead letters for one reason, window and partition; further rejected records are
only counted. The number of earlier rejections is part of the counts, so a worker that reads the log
again writes dead letters for the same records."""


def write_closed(
    context: TallyContext, outbox: WriteOutbox, partition: Partition, window: ClosedWindow
) -> None:
    """Write the record of a window that was closed; the next checkpoint waits for it."""
    key = closed_key(context.names.group_of(partition.topic), partition.number, window.window)
    encode = partial(encode_closed, context.plan, window)
    outbox.send(Write(partition, context.names.state, partition.number, key, encode))


def write_dead_letter(
    context: TallyContext, outbox: WriteOutbox, record: Record, rejection: Rejection, number: int
) -> None:
    """Write the first bytes of a rejected record, and headers with the reason and its origin.

    ``number`` counts the rejections of its reason and window. To write it twice does no harm.
    """
    damage = record.damage
    context.metrics.inc(m.REJECTIONS, reason=rejection.reason.value)
    if number > KEPT_PER_REASON:
        context.metrics.inc(m.DEAD_LETTERS_OMITTED)
        return
    letter = DeadLetter(
        reason=rejection.reason,
        detail=rejection.detail,
        topic=record.partition.topic,
        partition=record.partition.number,
        offset=record.offset,
        timestamp=record.timestamp,
        plan=context.plan.digest,
        length=len(record.value or b""),
        sha256=content_hash(record.value),
        first_offset=record.offset if damage is None else damage.first_offset,
        records=1 if damage is None else damage.records,
    )
    value = (record.value or b"")[:MAX_KEPT_BYTES]
    key = None if record.key is None else record.key[:MAX_KEPT_BYTES]
    topic, headers = context.names.dead_letters, letter.headers()
    outbox.send(Write(record.partition, topic, 0, key, lambda: value, headers))


def write_checkpoint(
    context: TallyContext,
    outbox: WriteOutbox,
    folds: Mapping[Partition, PartitionFold],
    keep_alive: Callable[[], None],
    deadline: float | None = None,
) -> dict[Partition, int]:
    """Write the state of every fold that has advanced; block until it is durable.

    Closed windows and dead letters are acknowledged first. No record may be counted meanwhile.
    """
    moved = [p for p, fold in folds.items() if fold.next_offset > fold.saved_offset]
    if not moved:
        return {}
    began = context.clock.monotonic()
    outbox.drain(keep_alive, deadline)
    for partition in moved:
        value = encode_state(context.plan, folds[partition].state())
        key = partition_key(context.names.group_of(partition.topic), partition.number)
        encode = partial(bytes, value)
        outbox.send(Write(partition, context.names.state, partition.number, key, encode))
    outbox.drain(keep_alive, deadline)
    for partition in moved:
        folds[partition].saved_offset = folds[partition].next_offset
    context.metrics.inc(m.CHECKPOINTS, len(moved))
    context.metrics.observe(m.CHECKPOINT_DURATION, context.clock.monotonic() - began)
    return {partition: folds[partition].next_offset for partition in moved}
