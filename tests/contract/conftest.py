"""Fixtures that run the same tests against both transports.

A *transport* is the code through which the product sends and reads records: the in-process broker
or real Kafka. The fixtures give each one with the few operations that only tests need.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from calmstream.broker.kafka import connect
from calmstream.broker.shared.broker import SharedBroker
from calmstream.broker.shared.group import GroupShare
from calmstream.broker.transport import (
    Broker,
    Chunk,
    GroupReader,
    Partition,
    Reader,
    Record,
    Sink,
    TopicSpec,
)
from calmstream.common.clock import SystemClock
from calmstream.common.errors import MissingTopic
from tests.brokers import administration
from tests.support.batches import produce
from tests.support.faulty_broker import FaultyBroker
from tests.support.service import processes

# Longer than a client's own limits, among them one minute for a delivery.
DEADLINE = 90.0
SESSION_SECONDS = 60.0


@dataclass
class Bench:
    """A transport under test: ``in_process``, ``shared`` or ``kafka``.

    ``expire`` makes the group expel the reader, its only member. ``append_batch`` appends a record
    batch in Kafka's encoding, and returns its first offset. ``trim`` deletes the
    records below these offsets.
    """

    broker: Broker
    kind: str
    expire: Callable[[str, GroupReader], None]
    append_batch: Callable[[Partition, bytes], int]
    trim: Callable[[Mapping[Partition, int]], None]

    def name(self, stem: str = "t") -> str:
        return f"contract.{stem}-{uuid.uuid4().hex[:12]}"

    def topic(self, partitions: int = 1, **settings: str) -> str:
        """Return a new topic; underscores in the settings' names stand for dots."""
        name = self.name()
        dotted = {key.replace("_", "."): value for key, value in settings.items()}
        topics = self.broker.topics()
        assert topics.create([TopicSpec(name, partitions, dotted)]) == [name]
        return name

    def fill(self, topic: str, values: list[bytes], partition: int = 0) -> list[int]:
        sink = self.broker.sink()
        sent = [sink.send(topic, b"k", value, partition=partition) for value in values]
        offsets = [delivery.wait(DEADLINE) for delivery in sent]
        sink.close(DEADLINE)
        return offsets

    def read(self, partition: Partition, start: int = 0) -> list[Record]:
        """Return everything from ``start`` to the end of a partition."""
        topics, reader = self.broker.topics(), self.broker.reader()
        end = topics.log_ends([partition])[partition]
        reader.assign([partition])
        reader.seek(partition, start)
        records: list[Record] = []
        until(lambda: records.extend(reader.poll(0.2)) or reader.position(partition) >= end)
        reader.close()
        return records


until = partial(processes.until, "what polls bring", seconds=DEADLINE, pause=0)


def _expire_in_process(_group: str, reader: GroupReader) -> None:
    reader.expire()  # type: ignore[attr-defined]


class _Driven:
    """A share of a membership that lets the group turn whenever it is polled."""

    def __init__(self, shared: SharedBroker, share: GroupShare) -> None:
        self._shared = shared
        self._share = share

    def subscribe(self, topics: Iterable[str]) -> None:
        """A missing topic would be an error of the next poll; its plan's worker looks before."""
        found = self._shared.topics().describe(list(topics))
        for missing in set(topics) - found.keys():
            raise MissingTopic(f"topic {missing} does not exist")
        self._share.subscribe(topics)

    def poll(self, timeout: float, max_records: int = 500) -> list[Record]:
        self._shared.group.turn(timeout)
        return self._share.poll(0.0, max_records)

    def poll_chunks(self, timeout: float, max_records: int = 500) -> list[Chunk]:
        self._shared.group.turn(timeout)
        return self._share.poll_chunks(0.0, max_records)

    def expire(self) -> None:
        self._shared.group._member.expire()  # type: ignore[union-attr]

    def close(self, timeout: float) -> None:
        self._share.close(timeout)
        self._shared.close(timeout)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._share, name)


class SharingBroker:
    """Gives shares of common clients, so that they keep the promises of clients of their own."""

    def __init__(self, broker: FaultyBroker) -> None:
        self._broker = broker
        self._common = SharedBroker(broker, "unused", SystemClock())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._broker, name)

    def close(self) -> None:
        self._common.close(0.0)
        self._broker.close()

    def sink(self) -> Sink:
        return self._common.plan().sink()

    def reader(self) -> Reader:
        return self._common.plan().reader()

    def group_reader(self, group: str) -> GroupReader:
        shared = SharedBroker(self._broker, group, SystemClock())
        return _Driven(shared, shared.plan().group_reader(group))  # type: ignore[return-value]


KINDS = ("in_process", "shared", pytest.param("kafka", marks=pytest.mark.kafka))


@pytest.fixture(params=KINDS)
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    broker: Broker
    if request.param == "shared":
        sharing = SharingBroker(FaultyBroker())
        broker = sharing
        trim = sharing.topics().trim
        yield Bench(sharing, "shared", _expire_in_process, sharing.append_batch, trim)
    elif request.param == "kafka":
        bootstrap = request.getfixturevalue("kafka_bootstrap")
        broker = connect(bootstrap, session_seconds=SESSION_SECONDS, connect_seconds=DEADLINE)
        yield Bench(
            broker,
            "kafka",
            lambda group, _: administration.expel(bootstrap, group),
            lambda where, raw: produce(bootstrap, *where, raw),
            lambda offsets: administration.trim(bootstrap, offsets),
        )
    else:
        broker = FaultyBroker()
        trim = broker.topics().trim
        yield Bench(broker, "in_process", _expire_in_process, broker.append_batch, trim)
    broker.close()


@pytest.fixture
def sink(bench: Bench) -> Sink:
    return bench.broker.sink()


@pytest.fixture
def reader(bench: Bench) -> Reader:
    return bench.broker.reader()
