"""Raw records to a trusted aggregator: the sending side of central plans, and nothing else.

Not an edge: nothing is perturbed here. It takes central plans only and knows no reports topic.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from estimators.central.wire import BATCH_ID_BYTES, MAX_BATCH_RECORDS, encode_batches
from estimators.errors import InvalidInput, RecoverableError

if TYPE_CHECKING:
    from broker.central_names import CentralNames
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

    No entry of a record makes this fail, whatever it is: values longer than 256 characters are cut,
    longer ids are replaced by their digest, values that are no text are missing, and a record
    without a usable id is left out. Blocks with much text are sent in smaller batches.

    Args:
        plan: central.
        broker: stays open.
        names: topics.
        users: an id for every record; of one user one record per window counts.
        columns: for every column of the plan its values; None or "" is missing.
        batch_size: records of one batch at most, 1 to 16,384.

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
    """Append one batch; a resend is harmless, as of one user one record counts."""
    key = os.urandom(BATCH_ID_BYTES)
    for attempt in range(ATTEMPTS):
        try:
            sink.send(topic, key, body).wait(SEND_SECONDS)
        except RecoverableError:
            if attempt == ATTEMPTS - 1:
                raise
        else:
            return
