"""Repairs of consumers; docs/upstream explains each fault."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from kafka import KafkaConsumer
from kafka import errors as kafka_errors

from calmstream.broker.record_batches import CorruptBatch, decode_batches
from calmstream.broker.transport import Chunk, Partition


def use_own_decoder(consumer: KafkaConsumer) -> None:
    """Let a consumer use our decoder, which returns `Chunk` objects.

    Fault: a batch that cannot be decoded raises at every poll, so that one such record stops a
    reader for good; and decompression has no bound. For each partition in a fetch response, the
    client creates one object of the class that this attribute names.
    """
    consumer._fetcher.PartitionRecords = FetchedRecords


def return_parked_records(consumer: KafkaConsumer) -> None:
    """Let a consumer return parked records as soon as their partition is not paused any more.

    Fault: the client parks the rest of a portion when its partition is paused, and does not fetch
    the partition meanwhile. It takes parked records only while its place for present records is
    None; after others were returned in full, their empty remains stay there, perhaps for ever.
    Repair: the place is emptied first. What it still holds is parked behind the others, so that
    partitions take turns.
    """
    fetcher, subscription = consumer._fetcher, consumer._subscription
    fetched_records = fetcher.fetched_records

    def with_parked_records(*args: Any, **options: Any) -> Any:
        present, parked = fetcher._next_partition_records, fetcher._paused_partition_records
        if not present:
            fetcher._next_partition_records = None
        elif not all(map(subscription.is_paused, parked)):
            fetcher._next_partition_records = None
            parked[present.topic_partition] = present
        return fetched_records(*args, **options)

    fetcher.fetched_records = with_parked_records


class Portion:
    """Chunks that the client passes on; it counts their records with ``len``."""

    def __init__(self, chunks: list[Chunk]) -> None:
        self._chunks = chunks
        self._records = sum(map(len, chunks))

    def __len__(self) -> int:
        return self._records

    def __iter__(self) -> Iterator[Chunk]:
        return iter(self._chunks)


class FetchedRecords:
    """The records of one partition in one fetch response; the client takes them in portions.

    It has the attributes and methods of the client's class that it replaces, and ignores the
    client's other options. With ``leader_epoch`` the client detects that a log was truncated.
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
