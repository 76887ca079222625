"""Repair of a consumer that stops for ever at a record batch that it cannot decode.

Fault: kafka-python decodes record batches record by record. It raises an error for header keys that
are not UTF-8 and for codecs that are not installed, and it decompresses without a bound. It has no
option for this.
Effect: it fetches the same batch again after every error, so that one such record stops a reader
for good.
Repair: for each partition in a fetch response, the client creates one object of the class that an
attribute of its fetcher names. The repair sets this attribute to a class that decodes with
`broker.record_batches`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from kafka import KafkaConsumer
from kafka import errors as kafka_errors

from calmstream.broker.record_batches import CorruptBatch, decode_batches
from calmstream.broker.transport import Chunk, Partition


def use_own_decoder(consumer: KafkaConsumer) -> None:
    """Let a consumer use our decoder, which returns `Chunk` objects."""
    consumer._fetcher.PartitionRecords = FetchedRecords


class Portion:
    """Chunks that the client passes on. Its length is the number of their records.

    The client compares the length with the number of records that a poll may return.
    """

    def __init__(self, chunks: list[Chunk]) -> None:
        self._chunks = chunks
        self._records = sum(map(len, chunks))

    def __len__(self) -> int:
        return self._records

    def __iter__(self) -> Iterator[Chunk]:
        return iter(self._chunks)


class FetchedRecords:
    """The records of one partition in one fetch response; the client takes them in portions.

    It has the attributes and methods of the client's class that it replaces. It ignores the
    client's other options.

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
        self._chunks: Iterator[Chunk] | None = self._decoded(data)
        self._rest: Chunk | None = None

    def __bool__(self) -> bool:
        return self._chunks is not None

    def drain(self) -> None:
        """Drop the records that were not taken."""
        if self._chunks is not None:
            self._chunks = self._rest = None
            self._on_drain(self)

    def take(self, limit: int) -> Portion:
        """Return at most ``limit`` records; fewer only if there are no more."""
        taken: list[Chunk] = []
        try:
            while limit > 0 and (chunk := self._next()) is not None:
                part = chunk.part(0, limit)
                self._rest = chunk.part(limit, len(chunk)) if limit < len(chunk) else None
                self.next_fetch_offset = int(part.offset[-1]) + 1
                taken.append(part)
                limit -= len(part)
        except CorruptBatch as error:
            self.drain()
            # The records before the damage are returned without an error. The next fetch begins at
            # the damaged batch; if it is still damaged, that fetch raises the error.
            if not taken:
                raise kafka_errors.CorruptRecordError(str(error)) from error
        else:
            if limit > 0:
                self.drain()
        return Portion(taken)

    def _next(self) -> Chunk | None:
        """Return the records that were left over, or the next chunk; None after the last."""
        if self._rest is None and self._chunks is not None:
            self._rest = next(self._chunks, None)
        return self._rest

    def _decoded(self, data: bytes) -> Iterator[Chunk]:
        """Yield all chunks; ``next_fetch_offset`` moves past the gap behind each of them."""
        partition = Partition(*self.topic_partition)
        for piece in decode_batches(partition, data, self.next_fetch_offset):
            self.leader_epoch = piece.leader_epoch
            if piece.chunk is not None:
                yield piece.chunk
            self.next_fetch_offset = piece.next_offset
