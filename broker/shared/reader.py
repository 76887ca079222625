"""One reader without a group, shared by many plans.

A share that polls lets the common reader poll for all shares, so that no plan needs a thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable

from calmstream.broker.shared.group import equal_error
from calmstream.broker.shared.queue import RecordQueue
from calmstream.broker.transport import Chunk, Partition, Reader
from calmstream.common.clock import Clock
from calmstream.common.errors import FatalError

_IDLE_SECONDS = 10.0
"""A share that has not polled for this long is not read further until it polls again."""

_WAIT_SECONDS = 0.05
"""Maximum wait for another thread that is polling, before looking again."""

_WAITING_RECORDS = 500
"""A share with as many waiting records is not read further."""


class ReaderShare(Reader):
    """A plan's part of a shared reader; two shares never read the same partition at a time."""

    def __init__(self, common: SharedReader, clock: Clock) -> None:
        self._common = common
        self._clock = clock
        self._lock = common.lock
        self.queue = RecordQueue()
        self.partitions: frozenset[Partition] = frozenset()
        self.polled_at = float("-inf")
        self.error: FatalError | None = None
        self.closed = False

    def assign(self, partitions: Collection[Partition]) -> None:
        """Read exactly these partitions; a missing one is an error of the next poll."""
        with self._lock:
            wanted = frozenset(partitions)
            self.queue.drop(self.partitions - wanted)
            self.partitions = wanted
            self.error = None

    def seek(self, partition: Partition, offset: int) -> None:
        with self._lock:
            self._require(partition)
            self.queue.restart(partition, offset)
            self.error = None
            self._common.moved(partition)

    def position(self, partition: Partition) -> int:
        with self._lock:
            self._require(partition)
            return self.queue.position(partition)

    def poll_chunks(self, timeout: float, max_records: int = 500) -> list[Chunk]:
        self._check()
        deadline = self._clock.monotonic() + timeout
        self.polled_at = self._clock.monotonic()
        while True:
            remaining = max(deadline - self._clock.monotonic(), 0.0)
            with self._lock:
                waiting = len(self.queue) > 0 or self.error is not None
            if not waiting:
                self._common.turn(remaining)
            with self._lock:
                if self.error is not None:
                    raise self.error
                chunks = self.queue.take(max_records)
            if chunks or remaining == 0.0:
                return chunks

    def close(self) -> None:
        self.assign(())
        self.closed = True
        self._common.forget(self)

    def _check(self) -> None:
        if self.closed:
            raise FatalError("the reader is closed")
        for partition in self.partitions:
            self.position(partition)

    def _require(self, partition: Partition) -> None:
        if partition not in self.partitions:
            raise FatalError(f"{partition} is not assigned to this reader")


class SharedReader:
    """The common reader. Safe for use from several threads."""

    def __init__(self, connect: Callable[[], Reader], clock: Clock) -> None:
        self.lock = threading.RLock()
        self._connect = connect
        self._clock = clock
        self._reader: Reader | None = None
        self._turning = threading.Lock()
        self._shares: list[ReaderShare] = []
        self._assigned: frozenset[Partition] = frozenset()
        # Positions that changed since the last poll: chunks that were fetched before are dropped.
        self._moved: set[Partition] = set()
        self._closed = False

    def share(self) -> ReaderShare:
        with self.lock:
            share = ReaderShare(self, self._clock)
            self._shares.append(share)
            return share

    def forget(self, share: ReaderShare) -> None:
        with self.lock:
            if share in self._shares:
                self._shares.remove(share)

    def moved(self, partition: Partition) -> None:
        """Note a seek; the caller holds the lock."""
        self._moved.add(partition)

    def turn(self, timeout: float) -> set[ReaderShare]:
        """Poll once for all shares, or wait while another thread does; return those with news."""
        if not self._turning.acquire(timeout=min(max(timeout, 0.001), _WAIT_SECONDS)):
            return set()
        try:
            return self._turn(timeout)
        finally:
            self._turning.release()

    def close(self) -> None:
        with self._turning:
            self._closed = True
            if self._reader is not None:
                self._reader.close()

    def _turn(self, timeout: float) -> set[ReaderShare]:
        if self._closed:
            raise FatalError("the reader is closed")
        if self._reader is None:
            self._reader = self._connect()
        reader = self._reader
        try:
            self._assign(reader)
            if not self._assigned:
                self._clock.sleep(timeout)
                return set()
            chunks = reader.poll_chunks(timeout)
        except FatalError as error:
            with self.lock:
                self._moved |= self._assigned  # the positions of others may have moved
                return self._blame(error)
        with self.lock:
            return self._distribute(reader, chunks)

    def _assign(self, reader: Reader) -> None:
        """Read the partitions of shares that poll and that are not behind."""
        with self.lock:
            now = self._clock.monotonic()
            active = [
                share
                for share in self._shares
                if share.error is None
                and now - share.polled_at <= _IDLE_SECONDS
                and len(share.queue) < _WAITING_RECORDS
            ]
            ends = {p: share.queue.fetched_to(p) for share in active for p in share.partitions}
            wanted = frozenset(p for p, end in ends.items() if end is not None)
            moved = (wanted - self._assigned) | (wanted & self._moved)
            offsets = {p: end for p in moved if (end := ends[p]) is not None}
            self._moved.clear()
        if wanted != self._assigned:
            self._assigned = frozenset()  # unless the call succeeds, all is assigned anew
            reader.assign(wanted)
            self._assigned = wanted
        for partition, offset in offsets.items():
            reader.seek(partition, offset)

    def _distribute(self, reader: Reader, chunks: Iterable[Chunk]) -> set[ReaderShare]:
        owner = {p: share for share in self._shares for p in share.partitions}
        due: set[ReaderShare] = set()
        for chunk in chunks:
            share = owner.get(chunk.partition)
            if share is not None and chunk.partition not in self._moved:
                share.queue.put(chunk)
                due.add(share)
        for partition in self._assigned - self._moved:
            share = owner.get(partition)
            if share is not None and share.queue.fetched_to(partition) is not None:
                share.queue.reached(partition, reader.position(partition))
        return due

    def _blame(self, error: FatalError) -> set[ReaderShare]:
        concerned = {
            share for share in self._shares if error.topics & {p.topic for p in share.partitions}
        }
        if not concerned:
            raise error
        for share in concerned:
            share.error = equal_error(error)
        return concerned
