"""The shared state of an in-process broker: topics and groups under one lock."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from calmstream.broker.in_process.groups import ConsumerGroup
from calmstream.broker.in_process.log import PartitionLog
from calmstream.broker.transport import Headers, Partition, TopicInfo, TopicSpec
from calmstream.common.errors import CalmstreamError, FatalError, MissingTopic

# Kafka's defaults of the settings that calmstream and its tests use.
_DEFAULTS: Mapping[str, str] = {
    "cleanup.policy": "delete",
    "delete.retention.ms": "86400000",
    "max.compaction.lag.ms": "9223372036854775807",
    "max.message.bytes": "1048588",
    "message.timestamp.type": "CreateTime",
    "min.cleanable.dirty.ratio": "0.5",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "segment.bytes": "1073741824",
    "segment.ms": "604800000",
}
_WORDS: Mapping[str, Collection[str]] = {
    "cleanup.policy": ("compact", "delete", "compact,delete"),
    "message.timestamp.type": ("CreateTime", "LogAppendTime"),
}

Settle = Callable[[int | CalmstreamError], None]
"""Receives the outcome of a send, the offset or the error; called once, under the lock."""


@dataclass(frozen=True, slots=True)
class _Topic:
    info: TopicInfo
    logs: tuple[PartitionLog, ...]


class Cluster:
    """The state that all clients of one in-process broker share.

    The caller of every method must hold ``lock``, which is notified after every change. No method
    blocks.
    """

    def __init__(self, clock: Callable[[], int], session_seconds: float) -> None:
        self.lock = threading.Condition()
        self.clock = clock
        self.coordinator_away = False
        self._session = session_seconds
        self._topics: dict[str, _Topic] = {}
        self._groups: dict[str, ConsumerGroup] = {}

    def create(self, spec: TopicSpec) -> bool:
        if spec.name in self._topics:
            return False
        if spec.partitions < 1:
            raise FatalError(f"topic {spec.name}: partitions must be 1 or more")
        info = TopicInfo(spec.name, str(uuid.uuid4()), 0, _with_defaults(spec.settings))
        self._topics[spec.name] = _Topic(info, ())
        self.grow(spec.name, spec.partitions)
        return True

    def alter(self, name: str, settings: Mapping[str, str]) -> None:
        logs, info = self.logs(name), self._topics[name].info
        changed = _with_defaults({**info.settings, **settings})
        for log in logs:
            log.settings = changed
        self._topics[name] = _Topic(replace(info, settings=changed), logs)

    def grow(self, name: str, partitions: int) -> None:
        """Add empty partitions to a topic, up to this number."""
        logs, info = self.logs(name), self._topics[name].info
        numbers = range(len(logs), partitions)
        added = [PartitionLog(Partition(name, n), info.settings) for n in numbers]
        self._topics[name] = _Topic(replace(info, partitions=partitions), (*logs, *added))
        self.lock.notify_all()

    def delete(self, name: str) -> None:
        if self._topics.pop(name, None) is not None:
            self.lock.notify_all()

    def info(self, name: str) -> TopicInfo | None:
        topic = self._topics.get(name)
        return None if topic is None else topic.info

    def sizes(self) -> dict[str, int]:
        return {name: len(topic.logs) for name, topic in self._topics.items()}

    def log(self, partition: Partition) -> PartitionLog:
        logs = self.logs(partition.topic)
        if not 0 <= partition.number < len(logs):
            raise MissingTopic(f"partition {partition} does not exist")
        return logs[partition.number]

    def logs(self, topic: str) -> tuple[PartitionLog, ...]:
        if topic not in self._topics:
            raise MissingTopic(f"topic {topic} does not exist", [topic])
        return self._topics[topic].logs

    def send(
        self,
        where: Partition,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        settle: Settle,
    ) -> None:
        settle(self.append(where, key, value, headers))
        self.lock.notify_all()

    def append(
        self, where: Partition, key: bytes | None, value: bytes | None, headers: Headers
    ) -> int | CalmstreamError:
        """Append a record; return its offset, or why it is refused."""
        try:
            log = self.log(where)
            log.check(key, value, headers)
        except FatalError as error:
            return error
        return log.append(key, value, headers, self.clock())

    def answers(self, partition: Partition) -> bool:  # noqa: ARG002 - for tests of faults
        return True

    def group(self, name: str) -> ConsumerGroup:
        return self._groups.setdefault(name, ConsumerGroup(self._session))


def _with_defaults(settings: Mapping[str, str]) -> dict[str, str]:
    for name, value in settings.items():
        allowed = _WORDS.get(name, ())
        if name not in _DEFAULTS or not (value in allowed or (not allowed and _is_number(value))):
            raise FatalError(f"topic setting {name}={value}: no such setting, or no such value")
    return {**_DEFAULTS, **settings}


def _is_number(text: str) -> bool:
    return text.removeprefix("-").replace(".", "", 1).isdecimal()
