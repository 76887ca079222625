"""The in-process broker: it creates clients."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from calmstream.broker.in_process.cluster import Cluster
from calmstream.broker.in_process.readers import InProcessGroupReader, InProcessReader
from calmstream.broker.in_process.sink import InProcessSink
from calmstream.broker.open_clients import OpenClients
from calmstream.broker.transport import Partition, TopicInfo, TopicSpec
from calmstream.common.clock import wall_clock


class InProcessBroker:
    """A broker in memory; see `Broker`. Safe for several threads; it deletes nothing by itself."""

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
        return self._open.add(InProcessSink(self._cluster))

    def reader(self) -> InProcessReader:
        return self._open.add(InProcessReader(self._cluster))

    def group_reader(self, group: str) -> InProcessGroupReader:
        return self._open.add(InProcessGroupReader(self._cluster, group, self._seconds))

    def topics(self) -> InProcessTopics:
        return InProcessTopics(self._cluster)

    def close(self) -> None:
        self._open.close()


class InProcessTopics:
    """Administers topics; see `Topics`. No method blocks."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def create(self, specs: Sequence[TopicSpec]) -> list[str]:
        with self._cluster.lock:
            return [spec.name for spec in specs if self._cluster.create(spec)]

    def describe(
        self, names: Sequence[str], settings: Collection[str] | None = None
    ) -> dict[str, TopicInfo]:
        with self._cluster.lock:
            found = {name: info for name in names if (info := self._cluster.info(name))}
        if settings is None:
            return found
        return {
            name: replace(info, settings={k: v for k, v in info.settings.items() if k in settings})
            for name, info in found.items()
        }

    def delete(self, names: Sequence[str]) -> None:
        with self._cluster.lock:
            for name in names:
                self._cluster.delete(name)

    def log_starts(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        with self._cluster.lock:
            return {p: self._cluster.log(p).start for p in partitions}

    def log_ends(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        with self._cluster.lock:
            return {p: self._cluster.log(p).end for p in partitions}

    def first_after(self, times: Mapping[Partition, int]) -> dict[Partition, int]:
        with self._cluster.lock:
            found = {
                p: next((r.offset for r in self._cluster.log(p).records if r.timestamp > t), None)
                for p, t in times.items()
            }
        return {p: offset for p, offset in found.items() if offset is not None}

    def owned(self, groups: Collection[str]) -> frozenset[Partition]:
        with self._cluster.lock:
            return frozenset().union(*(self._cluster.group(name).owned() for name in groups))

    def alter(self, names: Sequence[str], settings: Mapping[str, str]) -> None:
        with self._cluster.lock:
            for name in names:
                self._cluster.alter(name, settings)
