"""A consumer never gets past a record batch that it cannot decode.

Fault: kafka-python decodes record batches record by record. It raises an error for header keys that
are not UTF-8 and for codecs that are not installed, and it decompresses without a bound. It has no
option for this.
Effect: it asks for the same batch again after every error, so that one such record stops a reader
for good.
Repair: the client makes one object per answer and partition from a class attribute of its fetcher.
That attribute is replaced by a class that decodes with :mod:`broker.record_batches`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from kafka import KafkaConsumer
from kafka import errors as kafka_errors

from broker.record_batches import CorruptBatch, as_records, decode_batches
from broker.transport import Partition, Record


def use_own_decoder(consumer: KafkaConsumer) -> None:
    """Let a consumer return :class:`broker.transport.Record` objects."""
    consumer._fetcher.PartitionRecords = FetchedRecords


class FetchedRecords:
    """The records of one partition in one answer, taken piece by piece.

    It has the attributes and methods of the client's class that it replaces. It ignores the
    client's other options.

    Args:
        fetch_offset: first offset that was asked for.
        tp: topic and partition.
        records: the client's own view of the answer; only its bytes are used.
        on_drain: called once, when everything was taken or dropped.

    Attributes:
        topic_partition: as given.
        next_fetch_offset: offset after the last record taken.
        leader_epoch: that of the last record taken; the client detects truncated logs by it.
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
        data = bytes(records._buffer)  # the client's own iterator would copy batch by batch
        self.bytes_read = len(data)
        self._on_drain = on_drain
        self._records: Iterator[Record] | None = self._decoded(data)

    def __bool__(self) -> bool:
        return self._records is not None

    def drain(self) -> None:
        """Drop the records that were not taken."""
        if self._records is not None:
            self._records = None
            self._on_drain(self)

    def take(self, most: int) -> list[Record]:
        """Return up to ``most`` records; fewer only where there are no more.

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
        """Yield all records; the position is moved past each one before it is yielded."""
        partition = Partition(*self.topic_partition)
        for piece in decode_batches(data, self.next_fetch_offset):
            self.leader_epoch = piece.leader_epoch
            for record in as_records(partition, piece):
                self.next_fetch_offset = record.offset + 1
                yield record
            self.next_fetch_offset = piece.next_offset
