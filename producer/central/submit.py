"""Sends raw records to a trusted aggregator, for central plans only, never to a reports topic."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from calmstream.broker.names import partition_of
from calmstream.common.errors import InvalidInput
from calmstream.estimators.central.wire import BATCH_ID_BYTES, encode_batches

if TYPE_CHECKING:
    from calmstream.broker.names import CentralNames
    from calmstream.broker.transport import Broker
    from calmstream.estimators.central.plan import CentralPlan

DEFAULT_BATCH = 1000  # records, so that the cost of a send is small
SEND_SECONDS = 90.0  # wait for one acknowledgement; the client gives up earlier


def submit(
    plan: CentralPlan,
    broker: Broker,
    names: CentralNames,
    users: Sequence[object],
    columns: Sequence[Sequence[object]],
    *,
    batch_size: int = DEFAULT_BATCH,
) -> int:
    """Send every record that has an id; return their number when all are acknowledged.

    No content of a record causes an error. After a RecoverableError, call it again with the same
    records: in each window only the first record of a user counts.
    """
    if len(columns) != len(plan.columns) or {len(c) for c in columns} - {len(users)}:
        raise InvalidInput("every column of the plan needs one value per record")
    sink = broker.sink()
    sent = 0
    try:
        for records, body in encode_batches(plan, users, columns, batch_size):
            key = os.urandom(BATCH_ID_BYTES)
            partition = partition_of(key, names.partitions)
            sink.send(names.raw, key, body, partition=partition).wait(SEND_SECONDS)
            sent += records
    finally:
        sink.close(SEND_SECONDS)
    return sent
