"""Records that calmstream did not write, on topics that only calmstream should write to.

They change nothing: a reader skips them, counts them and logs the first one.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.transport import Record
from estimators.errors import ForeignRecord


class ForeignRecords:
    """The foreign records that one reader has skipped.

    Args:
        warn: logs the first one.
        counted: called for each one.

    Attributes:
        count: how many there were.
    """

    def __init__(
        self, warn: Callable[[str], object], counted: Callable[[], None] = lambda: None
    ) -> None:
        self.count = 0
        self._warn = warn
        self._counted = counted

    def skip(self, record: Record, error: ForeignRecord) -> None:
        """Note a record that is skipped."""
        self.count += 1
        self._counted()
        if self.count == 1:
            self._warn(
                f"{record.partition.topic} offset {record.offset}: {error}; skipping records that "
                "calmstream did not write: find out who else writes to the topic"
            )


def key_of(record: Record) -> bytes:
    """Return the key of a record of a compacted topic.

    Raises:
        ForeignRecord: it has none, or could not be decoded.
    """
    if record.damage is not None:
        raise ForeignRecord(f"records that cannot be decoded: {record.damage.why}")
    if record.key is None:
        raise ForeignRecord("a record without a key")
    return record.key
