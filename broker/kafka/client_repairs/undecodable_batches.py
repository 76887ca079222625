"""Repair of a consumer that stops for ever at a record batch that it cannot decode.

Fault: kafka-python decodes record batches record by record. It raises an error for header keys that
are not UTF-8 and for codecs that are not installed, and it decompresses without a bound. It has no
option for this.
Effect: it fetches the same batch again after every error, so that one such record stops a reader
for good.
Repair: for each partition in a fetch response, the client creates one object of the class that an
attribute of its fetcher names. The repair sets this attribute to a class that decodes with
:mod:`broker.record_batches`.
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
    """Let a consumer use our decoder, which returns :class:`broker.transport.Record` objects."""
    consumer._fetcher.PartitionRecords = FetchedRecords


class FetchedRecords:
    """The records of one partition in one fetch response; the client takes them in portions.

    It has the attributes and methods of the client's class that it replaces. It ignores the
    client's other options.

    Args:
        fetch_offset: first offset that the client requested.
        tp: topic and partition.
        records: the client's own object for the response; only its bytes are used.
        on_drain: called once, when every record was taken or dropped.

    Attributes:
        topic_partition: topic and partition.
        next_fetch_offset: offset after the last record taken.
        leader_epoch: leader epoch of the last record taken; the client uses it to detect that a log
            was truncated.
        bytes_read: size of the response in bytes.
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

    def take(self, limit: int) -> list[Record]:
        """Return at most ``limit`` records; fewer only if there are no more.

        Raises:
            CorruptRecordError: a checksum does not match. The client then fetches the bytes again.
        """
        taken: list[Record] = []
        if self._records is None:
            return taken
        try:
            taken.extend(islice(self._records, limit))
        except CorruptBatch as error:
            self.drain()
            # The records before the damage are returned without an error. The next fetch begins at
            # the damaged batch; if it is still damaged, that fetch raises the error.
            if not taken:
                raise kafka_errors.CorruptRecordError(str(error)) from error
        else:
            if len(taken) < limit:
                self.drain()
        return taken

    def _decoded(self, data: bytes) -> Iterator[Record]:
        """Yield all records; ``next_fetch_offset`` moves past each record before it is yielded."""
        partition = Partition(*self.topic_partition)
        for piece in decode_batches(data, self.next_fetch_offset):
            self.leader_epoch = piece.leader_epoch
            for record in as_records(partition, piece):
                self.next_fetch_offset = record.offset + 1
                yield record
            self.next_fetch_offset = piece.next_offset
