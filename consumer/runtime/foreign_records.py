"""Handles foreign records: records that calmstream did not write, in topics of calmstream.

They have no effect on results. A reader skips them, counts them and logs the first one.
"""

from __future__ import annotations

from collections.abc import Callable

from calmstream.broker.transport import Record
from calmstream.common.errors import ForeignRecord


class ForeignRecordCounter:
    """Counts the foreign records that one reader skips.

    Args:
        warn: writes a message to the log; called for the first foreign record.
        on_skip: called for each foreign record.

    Attributes:
        count: number of foreign records so far.
    """

    def __init__(
        self, warn: Callable[[str], object], on_skip: Callable[[], None] = lambda: None
    ) -> None:
        self.count = 0
        self._warn = warn
        self._on_skip = on_skip

    def skip(self, record: Record, error: ForeignRecord) -> None:
        """Count a record that is skipped; ``error`` says why it is foreign."""
        self.count += 1
        self._on_skip()
        if self.count == 1:
            self._warn(
                f"{record.partition.topic} offset {record.offset}: {error}; skipping records that "
                "calmstream did not write: find out who else writes to the topic"
            )


def key_of(record: Record) -> bytes:
    """Return the key of a record of a compacted topic, where calmstream's records have a key.

    Raises:
        ForeignRecord: the record has no key, or could not be decoded.
    """
    if record.damage is not None:
        raise ForeignRecord(f"the record cannot be decoded: {record.damage.why}")
    if record.key is None:
        raise ForeignRecord("the record has no key")
    return record.key
