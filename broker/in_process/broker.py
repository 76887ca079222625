"""The in-process broker: it creates clients, and has further methods for tests."""

from __future__ import annotations

import time
from collections.abc import Callable

from calmstream.broker.in_process.cluster import Cluster
from calmstream.broker.in_process.faults import Faults
from calmstream.broker.in_process.readers import InProcessGroupReader, InProcessReader
from calmstream.broker.in_process.sink import InProcessSink
from calmstream.broker.in_process.topics import InProcessTopics
from calmstream.broker.open_clients import OpenClients
from calmstream.broker.transport import Partition, Record
from calmstream.common.clock import wall_clock


class InProcessBroker:
    """A broker in memory; see `Broker`. Safe for use from several threads.

    Args:
        clock: returns the broker's time in milliseconds, for append times, retention and
            tombstones. It may jump forward or back.
        session_seconds: a group member that has not polled for this long loses its partitions when
            another member polls.
        seconds: returns a monotonic time in seconds; used for group sessions only.

    Attributes:
        faults: the faults that sends meet; none unless a test plans them.

    Further methods are for tests: those after :meth:`close`, and ``expire()`` of its group readers,
    which expels the member.
    """

    def __init__(
        self,
        clock: Callable[[], int] = wall_clock,
        *,
        session_seconds: float = 300.0,
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster = Cluster(clock, session_seconds)
        self._seconds = seconds
        self._open = OpenClients()
        self.faults: Faults = self._cluster.faults

    def sink(self) -> InProcessSink:
        sink = InProcessSink(self._cluster)
        self._open.add(sink, lambda: sink.close(0.0))
        return sink

    def reader(self) -> InProcessReader:
        reader = InProcessReader(self._cluster)
        self._open.add(reader, reader.close)
        return reader

    def group_reader(self, group: str, *, member: str | None = None) -> InProcessGroupReader:
        reader = InProcessGroupReader(self._cluster, group, member, self._seconds)
        self._open.add(reader, lambda: reader.close(0.0))
        return reader

    def topics(self) -> InProcessTopics:
        return InProcessTopics(self._cluster)

    def close(self) -> None:
        """Close all clients. The records stay; new clients can read them."""
        self._open.close()

    def grow(self, topic: str, partitions: int) -> None:
        """Add empty partitions to a topic, up to this number."""
        with self._cluster.lock:
            self._cluster.grow(topic, partitions)

    def compact(self, topic: str, *, active: int = 1, tombstones: bool = False) -> None:
        """Clean a compacted topic now, except its newest records; see `PartitionLog.compact`."""
        with self._cluster.lock:
            for log in self._cluster.logs(topic):
                log.compact(self._cluster.clock(), active=active, tombstones=tombstones)
            self._cluster.lock.notify_all()

    def stall(self, partition: Partition) -> None:
        """Make a partition unresponsive: reads return nothing and sends wait."""
        with self._cluster.lock:
            self._cluster.stall(partition)

    def release(self, partition: Partition) -> None:
        """Make a partition responsive again: append the waiting records in order."""
        with self._cluster.lock:
            self._cluster.release(partition)

    def set_coordinator_away(self, away: bool) -> None:
        """Let the coordinator of all groups answer no more, or again; other requests succeed."""
        with self._cluster.lock:
            self._cluster.coordinator_away = away
            self._cluster.lock.notify_all()

    def append_batch(self, partition: Partition, raw: bytes) -> int:
        """Append a record batch in Kafka's own encoding, damaged or not; return its first offset.

        The batch must state 0 as its first offset; as in Kafka, the broker replaces it.
        """
        with self._cluster.lock:
            offset = self._cluster.log(partition).append_batch(raw, self._cluster.clock())
            self._cluster.lock.notify_all()
            return offset

    def records(self, partition: Partition) -> list[Record]:
        """Return all records of a partition."""
        with self._cluster.lock:
            return list(self._cluster.log(partition).records)
