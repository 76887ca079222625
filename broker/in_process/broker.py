"""The in-process broker: it creates clients."""

from __future__ import annotations

import time
from collections.abc import Callable

from calmstream.broker.in_process.cluster import Cluster
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

    """

    cluster_class = Cluster

    def __init__(
        self,
        clock: Callable[[], int] = wall_clock,
        *,
        session_seconds: float = 300.0,
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster = self.cluster_class(clock, session_seconds)
        self._seconds = seconds
        self._open = OpenClients()

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

    def records(self, partition: Partition) -> list[Record]:
        with self._cluster.lock:
            return list(self._cluster.log(partition).records)
