"""Raw records to a trusted aggregator: the sending side of central plans, and nothing else.

Not an edge: nothing is perturbed here. It takes central plans only and knows no reports topic.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from estimators.central.wire import BATCH_ID_BYTES, MAX_BATCH_RECORDS, encode_raw
from estimators.errors import InvalidInput, RecoverableError

if TYPE_CHECKING:
    from broker.central_names import CentralNames
    from broker.transport import Broker
    from estimators.central.plan import CentralPlan

DEFAULT_BATCH = 1000
ATTEMPTS = 5
SEND_SECONDS = 20.0


def submit(
    plan: CentralPlan,
    broker: Broker,
    names: CentralNames,
    users: Sequence[str],
    columns: Sequence[Sequence[str | None]],
    *,
    batch_size: int = DEFAULT_BATCH,
) -> int:
    """Send every record once, in batches; blocks until all are acknowledged.

    Args:
        plan: central.
        broker: stays open.
        names: topics.
        users: an id for every record; of one user one record per window counts.
        columns: for every column of the plan its values; None or "" is missing.
        batch_size: records of one batch, 1 to 16,384.

    Returns:
        Records acknowledged.

    Raises:
        InvalidInput: lengths differ, or a batch is too large.
        RecoverableError: the broker did not acknowledge after several attempts.
    """
    if len(columns) != len(plan.columns) or {len(c) for c in columns} - {len(users)}:
        raise InvalidInput("every column of the plan needs one value per record")
    if not 1 <= batch_size <= MAX_BATCH_RECORDS:
        raise InvalidInput(f"a batch has 1 to {MAX_BATCH_RECORDS:,} records, not {batch_size}")
    sink = broker.sink()
    try:
        for start in range(0, len(users), batch_size):
            rows = slice(start, start + batch_size)
            body = encode_raw(plan, users[rows], [column[rows] for column in columns])
            key = os.urandom(BATCH_ID_BYTES)
            for attempt in range(ATTEMPTS):
                try:
                    # The same key again: a resend is recognised.
                    sink.send(names.raw, key, body).wait(SEND_SECONDS)
                    break
                except RecoverableError:
                    if attempt == ATTEMPTS - 1:
                        raise
    finally:
        sink.close(SEND_SECONDS)
    return len(users)
