"""Rejected records, kept: raw bytes in the dead-letter topic, everything else in headers."""

from __future__ import annotations

from collections.abc import Callable

from broker.names import TopicNames
from broker.transport import Record
from consumer.outbox import Outbox, Write
from estimators.errors import Rejection
from estimators.plan import Plan
from estimators.wire.dead_letter import DeadLetter

# A compressed record can be larger than any record that may be sent on; what is cut off is said in
# the detail. Both together stay below the topic's limit, headers included.
MAX_KEPT_BYTES = 4 << 20
MAX_KEPT_KEY_BYTES = 64 << 10
# What the dead-letter topic must take: both, headers, and the broker's own overhead.
MAX_LETTER_BYTES = MAX_KEPT_BYTES + 2 * MAX_KEPT_KEY_BYTES


class DeadLetters:
    """Writes dead letters through an outbox.

    Args:
        plan: the plan.
        names: of its topics.
        outbox: what keeps them until they are acknowledged.
        acknowledged: called for each one that is.
    """

    def __init__(
        self, plan: Plan, names: TopicNames, outbox: Outbox, acknowledged: Callable[[], None]
    ) -> None:
        self._plan = plan
        self._topic = names.dead_letters
        self._outbox = outbox
        self._acknowledged = acknowledged

    def keep(self, record: Record, rejection: Rejection) -> None:
        """Send a rejected record to the dead-letter topic; the same origin twice is harmless."""
        value, key, detail = record.value or b"", record.key, rejection.detail
        if len(value) > MAX_KEPT_BYTES:
            detail += f"; the first {MAX_KEPT_BYTES} of {len(value)} bytes are kept"
            value = value[:MAX_KEPT_BYTES]
        if key is not None and len(key) > MAX_KEPT_KEY_BYTES:
            detail += f"; the first {MAX_KEPT_KEY_BYTES} of {len(key)} key bytes are kept"
            key = key[:MAX_KEPT_KEY_BYTES]
        letter = DeadLetter(
            rejection.reason,
            detail,
            record.partition.topic,
            record.partition.number,
            record.offset,
            record.timestamp,
            self._plan.digest,
        )
        self._outbox.send(
            Write(
                source=record.partition,
                topic=self._topic,
                partition=0,
                key=key,
                encode=lambda: value,
                headers=letter.headers(),
                acknowledged=self._acknowledged,
            )
        )
