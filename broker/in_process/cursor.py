"""The positions of a reader and fair fetching from its partitions, for both kinds of reader."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from calmstream.broker.in_process.cluster import Cluster
from calmstream.broker.transport import Partition, Record
from calmstream.common.errors import FatalError


class Cursor:
    """The positions of a reader. The caller of every method must hold the cluster's lock.

    Log ends are reported as in Kafka's incremental fetch sessions (KIP-227). The broker's response
    contains a partition only if there are records, or if its end differs from the end that was
    reported last. The broker forgets a partition that is missing from a fetch. A reader that loses
    a partition and gets it back before its next fetch is therefore not informed of the end of that
    log until a record is appended.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._positions: dict[Partition, int | None] = {}
        self._paused: set[Partition] = set()
        self._ends: dict[Partition, int] = {}
        self._session: dict[Partition, int] = {}
        self._turn = 0

    def partitions(self) -> frozenset[Partition]:
        """Return the partitions that are being read."""
        return frozenset(self._positions)

    def add(self, partitions: Iterable[Partition], *, paused: bool) -> None:
        """Add partitions to read. They have no position until :meth:`seek` is called."""
        for partition in partitions:
            self._positions[partition] = None
            if paused:
                self._paused.add(partition)

    def drop(self, partitions: Iterable[Partition]) -> None:
        """Stop reading these partitions."""
        for partition in list(partitions):
            self._positions.pop(partition, None)
            self._ends.pop(partition, None)
            self._paused.discard(partition)

    def seek(self, partition: Partition, offset: int) -> None:
        """Set the position of a partition that is being read."""
        self._require(partition)
        if offset < 0:
            raise FatalError(f"{partition}: cannot seek to {offset}")
        self._positions[partition] = offset

    def position(self, partition: Partition) -> int:
        """Return the position of a partition that is being read."""
        self._require(partition)
        position = self._positions[partition]
        if position is None:
            raise FatalError(f"{partition}: no position yet, seek first")
        return position

    def end(self, partition: Partition) -> int | None:
        """Return the end that was reported last since the partition was added, or None."""
        return self._ends.get(partition)

    def pause(self, partitions: Collection[Partition]) -> None:
        """Stop fetching from these partitions; those that are not being read are ignored."""
        self._paused |= set(partitions) & self._positions.keys()

    def resume(self, partitions: Collection[Partition]) -> None:
        """Fetch from these partitions again; those that are not being read are ignored."""
        wanted = set(partitions) & self._positions.keys()
        for partition in wanted:
            self.position(partition)
        self._paused -= wanted

    def fetch(self, limit: int) -> list[Record]:
        """Return at most ``limit`` records; each call begins with the next partition in turn."""
        # Each call begins with another partition, so that no partition waits for ever.
        active = sorted(self._positions.keys() - self._paused)
        if active:
            # Without partitions to fetch there is no request, and the session stays unchanged.
            self._session = {p: end for p, end in self._session.items() if p in active}
        self._turn += 1
        turn = self._turn % len(active) if active else 0
        records: list[Record] = []
        for partition in active[turn:] + active[:turn]:
            if len(records) < limit and not self._cluster.stalls(partition):
                records += self._fetch_one(partition, limit - len(records))
        return records

    def _fetch_one(self, partition: Partition, limit: int) -> list[Record]:
        log = self._cluster.log(partition)
        records = log.read(self.position(partition), limit)
        self._positions[partition] = records[-1].offset + 1 if records else log.end
        if records or self._session.get(partition) != log.end:
            self._session[partition] = self._ends[partition] = log.end
        return records

    def _require(self, partition: Partition) -> None:
        if partition not in self._positions:
            raise FatalError(f"{partition} is not assigned to this reader")
