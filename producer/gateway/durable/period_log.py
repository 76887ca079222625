"""The file of one window: its reports, their ids, its batches, and what became of them."""

from __future__ import annotations

import struct
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence

from calmstream.common.errors import FatalError
from calmstream.producer.gateway.durable import entries
from calmstream.producer.gateway.durable.entries import (
    RowCodec,
    SpoolEntry,
    Stored,
)
from calmstream.producer.gateway.durable.frames import FrameFile
from calmstream.producer.gateway.encoding import EncodedBatch


class PeriodLog:
    """What the gateway holds of one plan's window: its ids, and 200 bytes per unsettled batch.

    Only :meth:`body` is safe from any thread.
    """

    def __init__(self, codec: RowCodec, period: int, file: FrameFile) -> None:
        self.period = period  # number of the window, as in reports
        self._codec = codec
        self.file = file
        self.ids = IdSet()
        self.by_key: Counter[int] = Counter()  # reports by number of the application key, or 0
        self._unused = 0
        self._outcomes: list[bytes] = []  # acknowledged (A), lost (L): entries of the next frame
        self.unsettled: dict[bytes, EncodedBatch] = {}

    @property
    def size(self) -> int:
        """Rounded up to the longest form: the exact size would show the newest report's group."""
        return self.file.size + self._unused

    def recover(self) -> Iterator[tuple[int, SpoolEntry]]:
        waiting: dict[int, SpoolEntry] = {}
        for offset, payload in self.file.recover():
            for entry in self._entries(offset, payload):
                self._apply(entry, waiting)
        yield from waiting.items()

    def add(self, accepted: Sequence[SpoolEntry]) -> int:
        """Spool new reports; durable on return. Returns the number of the first of them."""
        self._write(entries.reports(self._codec, accepted))
        first = len(self.ids)
        for entry in accepted:
            self._note(entry)
        return first

    def seal(self, numbers: Sequence[int], batches: Sequence[EncodedBatch]) -> list[EncodedBatch]:
        """Write down that reports leave, and in which batches; durable on return."""
        payload = entries.sealed(numbers, batches)
        offset = self._write(payload)
        stored = entries.read_entries(self._codec, payload, 0, period=self.period, offset=offset)
        found = [entry for entry in stored if isinstance(entry, EncodedBatch)]
        self.unsettled |= {batch.batch_id: batch for batch in found}
        return found

    def settle(self, batch_id: bytes, *, acknowledged: bool) -> None:
        if self.unsettled.pop(batch_id, None) is not None:
            self._outcomes.append(entries.settled(batch_id, acknowledged=acknowledged))

    def write_outcomes(self) -> None:
        if self._outcomes:
            self._write(b"")

    def body(self, batch: EncodedBatch) -> bytes:
        found = self.file.read(batch.offset, batch.length)
        if zlib.crc32(found) != batch.check:
            raise FatalError(f"{self.file.path}: the disk has changed a batch at {batch.offset:,}")
        return found

    def _write(self, payload: bytes) -> int:
        """Append a payload behind what is due before it; return the payload's offset."""
        before = b"".join(self._outcomes)
        if not self.file.size:
            before = entries.header(self._codec.plan.digest, self.period) + before
        offset = self.file.append(before + payload) + len(before)
        self._outcomes.clear()
        return offset

    def _entries(self, offset: int, payload: bytes) -> list[Stored]:
        expected = {"v": entries.VERSION, "plan": self._codec.plan.digest, "period": self.period}
        problem: object
        try:
            header, at = entries.read_header(payload)
            found = list(
                entries.read_entries(self._codec, payload, at, period=self.period, offset=offset)
            )
            problem = None if header == expected else header
        except (ValueError, IndexError, struct.error) as error:
            found, problem = [], error
        if problem is not None:
            raise FatalError(
                f"{self.file.path}: the frame at byte {offset:,} is not one of this plan and "
                f"window that this release reads ({problem}); move the file away to continue "
                "without it"
            )
        return found

    def _apply(self, entry: Stored, waiting: dict[int, SpoolEntry]) -> None:
        if isinstance(entry, SpoolEntry):
            waiting[len(self.ids)] = entry
            self._note(entry)
        elif isinstance(entry, list):
            for number in entry:
                waiting.pop(number, None)
        elif isinstance(entry, EncodedBatch):
            self.unsettled[entry.batch_id] = entry
        else:
            self.unsettled.pop(entry, None)

    def _note(self, report: SpoolEntry) -> None:
        self.ids.add(report.report_id)
        self.by_key[report.key] += 1
        self._unused += self._codec.unused(report.group)


ID_BYTES = 16
_BUCKETS = 1 << 16


class IdSet:
    """Ids of 16 bytes, in 22 bytes of memory each at 2 million, 19 at 5. Cost: O(n / 65,536).

    Strangers choose the ids: buckets follow Python's hash of bytes, which is keyed anew in every
    process, so that nobody can fill one bucket on purpose.
    """

    def __init__(self) -> None:
        self._buckets: dict[int, bytearray] = {}
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def __contains__(self, report_id: bytes) -> bool:
        bucket = self._buckets.get(hash(report_id) % _BUCKETS)
        if bucket is None:
            return False
        at = bucket.find(report_id)
        while at % ID_BYTES:  # -1 % 16 is 15: not found, or found across two ids
            if at < 0:
                return False
            at = bucket.find(report_id, at + 1)
        return True

    def add(self, report_id: bytes) -> None:
        """Add an id that is not in the set."""
        slot = hash(report_id) % _BUCKETS
        bucket = self._buckets.get(slot)
        if bucket is None:
            bucket = self._buckets[slot] = bytearray()
        bucket += report_id
        self._size += 1
