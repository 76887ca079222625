"""What the Kafka client does with the bytes of a fetch: decode them by our own decoder.

kafka-python 3.0 decodes record batches by itself, record by record. It raises on header keys that
are not UTF-8 and on codecs that the machine lacks, and it decompresses without a bound. Since it
asks for the same batch again, one such record stops a reader for good. The client has no option for
this. It makes one object per answer and partition from a class attribute of its fetcher, and that
attribute is what is replaced here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from kafka import KafkaConsumer
from kafka import errors as kafka_errors

from broker.record_batches import CorruptBatch, as_records, decode_batches
from broker.transport import Partition, Record


def decode_by_ourselves(consumer: KafkaConsumer) -> None:
    """Have a consumer of kafka-python return :class:`broker.transport.Record` objects of ours."""
    consumer._fetcher.PartitionRecords = FetchedRecords  # noqa: SLF001 - no public way


class FetchedRecords:
    """The records of one partition in one answer, taken piece by piece.

    It has the attributes and methods of the class whose place it takes. Its keyword arguments other
    than these are the client's options, which have no meaning here.

    Args:
        fetch_offset: where the answer was asked to begin.
        tp: topic and partition.
        records: the client's own view of the answer; only its bytes are used.
        on_drain: called once everything was taken or dropped.

    Attributes:
        topic_partition: as given.
        next_fetch_offset: offset behind what was taken.
        leader_epoch: of what was taken last; the client finds truncated logs by it.
        bytes_read: size of the answer.
    """

    def __init__(
        self,
        fetch_offset: int,
        tp: Any,
        records: Any,
        *,
        on_drain: Callable[[FetchedRecords], None] = lambda _: None,
        **_options: Any,
    ) -> None:
        self.topic_partition = tp
        self.next_fetch_offset = fetch_offset
        self.leader_epoch = -1
        data = bytes(records._buffer)  # noqa: SLF001 - its own iterator copies batch by batch
        self.bytes_read = len(data)
        self._on_drain = on_drain
        self._records: Iterator[Record] | None = self._decoded(data)

    def __bool__(self) -> bool:
        return self._records is not None

    def drain(self) -> None:
        """Drop what was not taken."""
        if self._records is not None:
            self._records = None
            self._on_drain(self)

    def take(self, most: int) -> list[Record]:
        """At most so many records; fewer only where there are no more.

        Raises:
            CorruptRecordError: a checksum does not match. The client asks for the bytes again.
        """
        taken: list[Record] = []
        if self._records is None:
            return taken
        try:
            taken.extend(islice(self._records, most))
        except CorruptBatch as error:
            self.drain()
            if not taken:
                raise kafka_errors.CorruptRecordError(str(error)) from error
        else:
            if len(taken) < most:
                self.drain()
        return taken

    def _decoded(self, data: bytes) -> Iterator[Record]:
        """All records, with the position behind each one noted before it is yielded."""
        partition = Partition(*self.topic_partition)
        for piece in decode_batches(data, self.next_fetch_offset):
            self.leader_epoch = piece.leader_epoch
            for record in as_records(partition, piece):
                self.next_fetch_offset = record.offset + 1
                yield record
            self.next_fetch_offset = piece.next_offset
