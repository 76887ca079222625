"""The in-process broker with faults: of sends, of partitions, of the coordinator, of the log."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from enum import Enum

from calmstream.broker.in_process import InProcessBroker
from calmstream.broker.in_process.broker import InProcessTopics
from calmstream.broker.in_process.cluster import Cluster, Settle
from calmstream.broker.record_batches import decode_batches
from calmstream.broker.transport import Headers, Partition, Record
from calmstream.common.errors import CalmstreamError, RecoverableError


class SendFault(Enum):
    NONE = "appended and acknowledged"
    FAIL = "not appended; the delivery raises RecoverableError"
    DUPLICATE = "appended twice, as by a retry after a lost acknowledgement; acknowledged"
    LOSE_ACK = "appended; the delivery raises RecoverableError"


class Faults:
    """Planned faults of sends; ``on_send`` decides, under the broker's lock, about all others."""

    def __init__(self) -> None:
        self.on_send: Callable[[Partition, bytes | None, bytes | None], SendFault] | None = None
        self._planned: dict[str, deque[SendFault]] = {}

    def plan(self, topic: str, *faults: SendFault) -> None:
        """Plan the outcomes of the next sends to a topic, after those planned before."""
        self._planned.setdefault(topic, deque()).extend(faults)

    def for_send(self, partition: Partition, key: bytes | None, value: bytes | None) -> SendFault:
        planned = self._planned.get(partition.topic)
        if planned:
            return planned.popleft()
        return SendFault.NONE if self.on_send is None else self.on_send(partition, key, value)


class FaultyCluster(Cluster):
    """A cluster whose sends may fail, and whose partitions and coordinator may fall silent."""

    def __init__(self, clock: Callable[[], int], session_seconds: float) -> None:
        super().__init__(clock, session_seconds)
        self.faults = Faults()
        self.stalled: dict[Partition, deque[Callable[[], None]]] = {}
        self.silent: set[Partition] = set()

    def answers(self, partition: Partition) -> bool:
        return partition not in self.stalled

    def send(
        self,
        where: Partition,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        settle: Settle,
    ) -> None:
        def send() -> None:
            super(FaultyCluster, self).send(where, key, value, headers, settle)

        if self.answers(where):
            send()
        else:
            self.stalled[where].append(send)

    def append(
        self, where: Partition, key: bytes | None, value: bytes | None, headers: Headers
    ) -> int | CalmstreamError:
        fault = self.faults.for_send(where, key, value)
        if fault is SendFault.FAIL:
            return RecoverableError(f"the send to {where} failed")
        offset = super().append(where, key, value, headers)
        if isinstance(offset, CalmstreamError):
            return offset
        if fault is SendFault.DUPLICATE:
            super().append(where, key, value, headers)
        if fault is SendFault.LOSE_ACK:
            return RecoverableError(f"the acknowledgement from {where} was lost")
        return offset

    def delete(self, name: str) -> None:
        super().delete(name)
        for partition in [p for p in self.stalled if p.topic == name]:
            self.release(partition)

    def release(self, partition: Partition) -> None:
        self.silent.discard(partition)
        for send in self.stalled.pop(partition, ()):
            send()
        self.lock.notify_all()


class FaultyTopics(InProcessTopics):
    """Topics of which some partitions return no offsets."""

    _cluster: FaultyCluster

    def log_starts(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        self._check(partitions)
        return super().log_starts(partitions)

    def log_ends(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        self._check(partitions)
        return super().log_ends(partitions)

    def trim(self, offsets: Mapping[Partition, int]) -> None:
        with self._cluster.lock:
            for partition, offset in offsets.items():
                log = self._cluster.log(partition)
                assert offset <= log.end
                log.start = max(log.start, offset)
                log.records = [record for record in log.records if record.offset >= log.start]

    def _check(self, partitions: Collection[Partition]) -> None:
        if self._cluster.silent & set(partitions):
            raise RecoverableError("the broker did not answer in time")


class FaultyBroker(InProcessBroker):
    """A broker in memory with the means that tests need."""

    cluster_class = FaultyCluster
    _cluster: FaultyCluster

    @property
    def faults(self) -> Faults:
        """The faults that sends meet; none unless a test plans them."""
        return self._cluster.faults

    def records(self, partition: Partition) -> list[Record]:
        with self._cluster.lock:
            return list(self._cluster.log(partition).records)

    def grow(self, topic: str, partitions: int) -> None:
        with self._cluster.lock:
            self._cluster.grow(topic, partitions)

    def compact(self, topic: str, *, active: int = 1, tombstones: bool = False) -> None:
        """Remove records whose key has a newer one, except the newest ``active`` records.

        Tombstones go when they are older than their retention, or all at once.
        """
        with self._cluster.lock:
            for log in self._cluster.logs(topic):
                cut = max(len(log.records) - active, 0)
                last = {record.key: record.offset for record in log.records[:cut]}
                limit = self._cluster.clock() - int(log.settings["delete.retention.ms"])
                kept = [
                    r
                    for r in log.records[:cut]
                    if (r.damage or last[r.key] == r.offset)
                    and (r.value is not None or (r.timestamp > limit and not tombstones))
                ]
                log.records = kept + log.records[cut:]
            self._cluster.lock.notify_all()

    def topics(self) -> FaultyTopics:
        return FaultyTopics(self._cluster)

    def stall(self, partition: Partition, *, offsets: bool = True) -> None:
        """Make a partition unresponsive: reads return nothing, and sends wait in order.

        It returns no ``offsets`` then, either.
        """
        with self._cluster.lock:
            self._cluster.stalled.setdefault(partition, deque())
            if not offsets:
                self._cluster.silent.add(partition)

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
            log, now = self._cluster.log(partition), self._cluster.clock()
            first, stamped = log.end, log.append_time
            (piece,) = decode_batches(partition, raw)
            for record in () if piece.chunk is None else piece.chunk.records():
                damage = record.damage and replace(
                    record.damage, first_offset=first + record.damage.first_offset
                )
                moved = replace(
                    record,
                    offset=first + record.offset,
                    timestamp=now if stamped else record.timestamp,
                    append_time=stamped,
                    damage=damage,
                )
                log.add(moved)
            log.end = first + piece.next_offset
            self._cluster.lock.notify_all()
            return first
