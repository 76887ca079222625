"""Sends raw records to a trusted aggregator, for central plans only, never to a reports topic."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from calmstream.broker.names import partition_of
from calmstream.common.errors import InvalidInput, RecoverableError
from calmstream.estimators.central.wire import BATCH_ID_BYTES, MAX_BATCH_RECORDS, encode_batches

if TYPE_CHECKING:
    from calmstream.broker.names import CentralNames
    from calmstream.broker.transport import Broker, Sink
    from calmstream.estimators.central.plan import CentralPlan

DEFAULT_BATCH = 1000  # records, so that the cost of a send is small
ATTEMPTS = 5  # of one batch
SEND_SECONDS = 20.0  # longest wait for one acknowledgement


def submit(
    plan: CentralPlan,
    broker: Broker,
    names: CentralNames,
    users: Sequence[object],
    columns: Sequence[Sequence[object]],
    *,
    batch_size: int = DEFAULT_BATCH,
) -> int:
    """Send every record, in batches; block until all are acknowledged, and return their number.

    No content of a record causes an error: `wire` cuts values and replaces ids, and a record whose
    id is empty or not text is left out. After a RecoverableError, call it again with the same
    records: in each window only the first record of a user counts.
    """
    if len(columns) != len(plan.columns) or {len(c) for c in columns} - {len(users)}:
        raise InvalidInput("every column of the plan needs one value per record")
    if not 1 <= batch_size <= MAX_BATCH_RECORDS:
        raise InvalidInput(f"a batch has 1 to {MAX_BATCH_RECORDS:,} records, not {batch_size}")
    sink = broker.sink()
    sent = 0
    try:
        for records, body in encode_batches(plan, users, columns, batch_size):
            _send(sink, names, body)
            sent += records
    finally:
        sink.close(SEND_SECONDS)
    return sent


def _send(sink: Sink, names: CentralNames, body: bytes) -> None:
    """Send one batch. A second copy does no harm: only one record of a user counts in a window."""
    # The random id of the batch, the same for all attempts, spreads batches over the partitions.
    key = os.urandom(BATCH_ID_BYTES)
    for attempt in range(ATTEMPTS):
        try:
            partition = partition_of(key, names.partitions)
            sink.send(names.raw, key, body, partition=partition).wait(SEND_SECONDS)
        except RecoverableError:
            if attempt == ATTEMPTS - 1:
                raise
        else:
            return
