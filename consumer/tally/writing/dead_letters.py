"""Writes dead letters: records that describe rejected records.

A dead letter contains the first bytes of the rejected record; its headers state the reason and the
origin.
"""

from __future__ import annotations

from calmstream.broker.topic_facts import MAX_DEAD_LETTER_BYTES
from calmstream.broker.transport import Record
from calmstream.common.errors import Rejection
from calmstream.consumer.metrics.tally import DEAD_LETTERS_OMITTED
from calmstream.consumer.runtime.context import TallyContext
from calmstream.consumer.tally.folding.fold import RecordOutcome
from calmstream.consumer.tally.writing.outbox import Write, WriteOutbox
from calmstream.estimators.wire.dead_letter import DeadLetter, content_hash

MAX_KEPT_BYTES = MAX_DEAD_LETTER_BYTES // 4
"""Maximum number of bytes that are kept of a value, and of a key. The rest stays in the log, where
offset and hash identify the record."""

KEPT_PER_REASON = 1000
"""Maximum number of dead letters for one reason, window and partition; further rejected records are
only counted.

The number of earlier rejections is part of the counts. So a worker that reads the log again writes
dead letters for the same records.
"""


class DeadLetters:
    """Writes dead letters through an outbox."""

    def __init__(self, context: TallyContext, outbox: WriteOutbox) -> None:
        self._plan = context.plan
        self._topic = context.names.dead_letters
        self._metrics = context.metrics
        self._outbox = outbox

    def keep(self, record: Record, outcome: RecordOutcome) -> None:
        """Write a dead letter for a rejected record; to write it twice does no harm."""
        rejection = outcome.rejection
        assert rejection is not None, "only rejected records are kept"
        if outcome.rejects > KEPT_PER_REASON:
            self._metrics.inc(DEAD_LETTERS_OMITTED)
            return
        value = (record.value or b"")[:MAX_KEPT_BYTES]
        self._outbox.send(
            Write(
                source=record.partition,
                topic=self._topic,
                partition=0,
                key=None if record.key is None else record.key[:MAX_KEPT_BYTES],
                encode=lambda: value,
                headers=self._describe(record, rejection).headers(),
            )
        )

    def _describe(self, record: Record, rejection: Rejection) -> DeadLetter:
        damage = record.damage
        return DeadLetter(
            reason=rejection.reason,
            detail=rejection.detail,
            topic=record.partition.topic,
            partition=record.partition.number,
            offset=record.offset,
            timestamp=record.timestamp,
            plan=self._plan.digest,
            length=len(record.value or b""),
            sha256=content_hash(record.value),
            first_offset=record.offset if damage is None else damage.first_offset,
            records=1 if damage is None else damage.records,
        )
