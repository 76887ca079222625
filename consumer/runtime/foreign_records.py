"""Handles foreign records: records that calmstream did not write, in topics of calmstream.

A reader skips them, counts them and logs the first one, and one every ten minutes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from calmstream.broker.transport import Record
from calmstream.common.errors import CalmstreamError, ForeignRecord

_LOG_SECONDS = 600.0


class ForeignRecordCounter:
    """Counts the foreign records that one reader skips."""

    def __init__(self, warn: Callable[[str], object]) -> None:
        self.count = 0
        self._warn = warn
        self._logged: float | None = None

    @contextmanager
    def reading(self, record: Record) -> Iterator[None]:
        """Skip the record if reading it fails because of its content; other errors pass."""
        try:
            yield
        except ForeignRecord as error:
            self.skip(record, str(error))
        except CalmstreamError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a record contains, the reader goes on
            self.skip(record, f"it cannot be read ({type(error).__name__})")

    def skip(self, record: Record, reason: str) -> None:
        self.count += 1
        now = time.monotonic()
        if self._logged is None or now - self._logged >= _LOG_SECONDS:
            self._logged = now
            self._warn(
                f"{record.partition.topic} offset {record.offset}: {reason}; skipping records that "
                "calmstream did not write: find out who else writes to the topic"
            )


def key_of(record: Record) -> bytes:
    if record.damage is not None:
        raise ForeignRecord(f"the record cannot be decoded: {record.damage.why}")
    if record.key is None:
        raise ForeignRecord("the record has no key")
    return record.key
