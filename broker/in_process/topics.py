"""Administration of topics in an in-process broker: create, describe, trim, alter, delete."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from calmstream.broker.in_process.cluster import Cluster
from calmstream.broker.transport import Partition, TopicInfo, TopicSpec


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

    def owned(self, groups: Collection[str]) -> frozenset[Partition]:
        with self._cluster.lock:
            return frozenset().union(*(self._cluster.group(name).owned() for name in groups))

    def trim(self, offsets: Mapping[Partition, int]) -> None:
        with self._cluster.lock:
            for partition, offset in offsets.items():
                self._cluster.log(partition).trim(offset)

    def alter(self, names: Sequence[str], settings: Mapping[str, str]) -> None:
        with self._cluster.lock:
            for name in names:
                self._cluster.alter(name, settings)

    def close(self) -> None:
        """Do nothing: there is nothing to release."""
