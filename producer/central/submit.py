"""Sends raw records to a trusted aggregator, for central plans only.

Nothing is perturbed here, and no reports topic is written.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from estimators.central.wire import BATCH_ID_BYTES, MAX_BATCH_RECORDS, encode_batches
from estimators.errors import InvalidInput, RecoverableError

if TYPE_CHECKING:
    from broker.names import CentralNames
    from broker.transport import Broker, Sink
    from estimators.central.plan import CentralPlan

DEFAULT_BATCH = 1000
ATTEMPTS = 5
SEND_SECONDS = 20.0


def submit(
    plan: CentralPlan,
    broker: Broker,
    names: CentralNames,
    users: Sequence[object],
    columns: Sequence[Sequence[object]],
    *,
    batch_size: int = DEFAULT_BATCH,
) -> int:
    """Send every record once, in batches; blocks until all are acknowledged.

    No content of a record makes this fail. Values are cut after 256 characters, longer ids are
    replaced by their digest, values that are not text count as missing, and a record without a
    usable id is left out. Records with much text are sent in smaller batches.

    Args:
        plan: a central plan.
        broker: connection; stays open.
        names: topics of the plan.
        users: an id for every record; one record of a user counts per window.
        columns: the values of every column of the plan; None or "" is missing.
        batch_size: most records in a batch, 1 to 16,384.

    Returns:
        Records acknowledged.

    Raises:
        InvalidInput: lengths differ, or the plan's column names leave no room for a record.
        RecoverableError: the broker did not acknowledge after several attempts.
    """
    if len(columns) != len(plan.columns) or {len(c) for c in columns} - {len(users)}:
        raise InvalidInput("every column of the plan needs one value per record")
    if not 1 <= batch_size <= MAX_BATCH_RECORDS:
        raise InvalidInput(f"a batch has 1 to {MAX_BATCH_RECORDS:,} records, not {batch_size}")
    sink = broker.sink()
    sent = 0
    try:
        for records, body in encode_batches(plan, users, columns, batch_size):
            _send(sink, names.raw, body)
            sent += records
    finally:
        sink.close(SEND_SECONDS)
    return sent


def _send(sink: Sink, topic: str, body: bytes) -> None:
    """Append one batch. A resend is harmless, because one record of a user counts."""
    key = os.urandom(BATCH_ID_BYTES)
    for attempt in range(ATTEMPTS):
        try:
            sink.send(topic, key, body).wait(SEND_SECONDS)
        except RecoverableError:
            if attempt == ATTEMPTS - 1:
                raise
        else:
            return
