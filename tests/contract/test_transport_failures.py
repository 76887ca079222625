"""Check the Kafka clients while the broker is unreachable, frozen, restarted or strict.

A strict broker refuses what the client requests.
"""

from __future__ import annotations

import socket
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from calmstream.broker.kafka import connect
from calmstream.broker.security import SecurityConfig
from calmstream.broker.transport import Partition, Sink, Topics, TopicSpec
from calmstream.common.errors import FatalError, InvalidInput, RecoverableError
from tests.brokers.native import NativeKafka
from tests.brokers.provide import or_skip
from tests.brokers.relay import Relay
from tests.contract.conftest import DEADLINE, until
from tests.support.ports import free_port

pytestmark = pytest.mark.kafka

# A broker keeps its registration while it is frozen or starved for a while, and a restart after a
# kill waits until the old one has run out.
OWN = {"broker.session.timeout.ms": "12000"}


def _started(broker: NativeKafka) -> NativeKafka:
    with or_skip():
        broker.start()
    return broker


@pytest.fixture(scope="module")
def _own() -> Iterator[NativeKafka]:
    broker = _started(NativeKafka(properties=OWN))
    yield broker
    broker.close()


@pytest.fixture
def own(_own: NativeKafka) -> Iterator[NativeKafka]:
    """Return a broker that may be stopped, killed and frozen; every test finds it ready."""
    if not _own.running():
        _own.start()
    until(lambda: _creates_topics(_own))
    yield _own
    if _own.running():
        _own.thaw()


def _creates_topics(broker: NativeKafka) -> bool:
    """Return whether it creates a topic: one that was frozen may have lost its registration."""
    try:
        client = connect(broker.bootstrap)
    except RecoverableError:
        return False
    try:
        return bool(client.topics().create([TopicSpec(_new_name(), 1)]))
    except (FatalError, RecoverableError):
        return False
    finally:
        client.close()


def _new_name() -> str:
    return f"failures-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def topic() -> str:
    return _new_name()


def _create(broker: NativeKafka, *topics: str) -> None:
    """Create topics with a client of its own, whose limits a busy machine meets."""
    client = connect(broker.bootstrap)
    assert client.topics().create([TopicSpec(name, 1) for name in topics]) == list(topics)
    client.close()


def _passes(call: Callable[[], object]) -> bool:
    """Return whether a call succeeds; with short limits it may fail on a busy machine."""
    try:
        call()
    except RecoverableError:
        return False
    return True


def _described(topics: Topics, topic: str) -> bool:
    try:
        return topic in topics.describe([topic])
    except RecoverableError:
        return False


def test_an_unreachable_broker_gives_one_line_in_time() -> None:
    address = f"127.0.0.1:{free_port()}"  # connections are refused
    started = time.monotonic()
    with pytest.raises(RecoverableError) as caught:
        connect(address, connect_seconds=1.0)
    assert str(caught.value) == f"no broker answers at {address} within 1 s"
    assert time.monotonic() - started < DEADLINE


@pytest.mark.parametrize(
    ("protocol", "said"), [("PLAINTEXT", ""), ("SSL", " over SSL; check the protocol")]
)
def test_somebody_else_there_is_noticed_in_time(protocol: Any, said: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        started = time.monotonic()
        with pytest.raises(
            RecoverableError, match=f"no broker answers at {address} within 1 s{said}"
        ):
            connect(address, SecurityConfig(security_protocol=protocol), connect_seconds=1.0)
    assert time.monotonic() - started < DEADLINE


@pytest.mark.parametrize("bootstrap", ["", "localhost", "a:b", "a:0", "a:70000", "a:1,,b:2"])
def test_an_address_that_cannot_be_is_refused(bootstrap: str) -> None:
    with pytest.raises(InvalidInput, match=r"HOST:PORT"):
        connect(bootstrap)


def test_a_frozen_broker_is_recoverable_and_the_record_arrives_after_all(
    own: NativeKafka, topic: str
) -> None:
    _create(own, topic)
    broker = connect(own.bootstrap)
    sink = broker.sink()
    assert sink.send(topic, b"k", b"0").wait(DEADLINE) == 0
    own.freeze()
    delivery = sink.send(topic, b"k", b"1")
    with pytest.raises(RecoverableError):
        delivery.wait(0.5)
    with pytest.raises(RecoverableError):
        broker.topics().describe([topic])
    own.thaw()
    assert delivery.wait(DEADLINE) == 1
    broker.close()


def _delivered(sink: Sink, topic: str) -> bool:
    return _passes(lambda: sink.send(topic, b"k", b"0").wait(DEADLINE))


def test_a_send_fails_after_its_delivery_time_and_the_sink_goes_on(
    own: NativeKafka, topic: str
) -> None:
    _create(own, topic)
    broker = connect(own.bootstrap, request_seconds=1.5, delivery_seconds=4.0)
    sink = broker.sink()
    until(lambda: _delivered(sink, topic))
    own.freeze()
    # Tried at least once: the first request times out before the record is given up.
    delivery = sink.send(topic, b"k", b"1")
    with pytest.raises(RecoverableError):
        delivery.wait(DEADLINE)
    assert delivery.done()
    own.thaw()
    until(lambda: _delivered(sink, topic))
    broker.close()


def test_a_full_buffer_is_recoverable(own: NativeKafka, topic: str) -> None:
    _create(own, topic)
    broker = connect(own.bootstrap, buffer_bytes=1000, block_seconds=1.0)
    sink = broker.sink()
    until(lambda: _passes(lambda: sink.prepare([topic])))
    sink.send(topic, b"k", b"0").wait(DEADLINE)
    own.freeze()
    first = sink.send(topic, b"k", b"x" * 900)
    second = sink.send(topic, b"k", b"x" * 900)
    with pytest.raises(RecoverableError, match=r"room"):
        second.wait(DEADLINE)
    own.thaw()
    assert first.wait(DEADLINE) == 1
    broker.close()


@pytest.mark.parametrize("how", ["stop", pytest.param("kill", marks=pytest.mark.slow)])
def test_clients_survive_a_restart_of_the_broker(own: NativeKafka, topic: str, how: str) -> None:
    # The start of a broker may take longer than the minute that a delivery has by default.
    broker = connect(own.bootstrap, session_seconds=6.0, delivery_seconds=240.0)
    topics, sink, reader = broker.topics(), broker.sink(), broker.reader()
    group = broker.group_reader("g")
    topics.create([TopicSpec(topic, 1)])
    sink.send(topic, b"k", b"0").wait(DEADLINE)
    where = Partition(topic, 0)
    reader.assign([where])
    reader.seek(where, 0)
    group.subscribe([topic])
    until(lambda: group.poll(0.1) or group.assignment())
    group.seek(where, 1)
    group.resume([where])
    until(lambda: reader.poll(0.2))

    getattr(own, how)()
    pending = sink.send(topic, b"k", b"1")
    with pytest.raises(RecoverableError):
        topics.describe([topic])
    assert reader.poll(0.2) == []
    own.start()

    assert pending.wait(DEADLINE) == 1
    got: list[bytes | None] = []
    until(lambda: got.extend(r.value for r in reader.poll(0.2)) or got)
    assert got == [b"1"]

    def group_reads_on() -> list[bytes | None]:
        records = group.poll(0.2)
        for partition in group.take_changes().added:
            group.seek(partition, 1)
            group.resume([partition])
        return [record.value for record in records]

    until(lambda: group_reads_on() == [b"1"])

    until(lambda: _described(topics, topic))
    broker.close()


def test_clients_find_a_single_broker_that_comes_back_at_another_address(
    own: NativeKafka, topic: str
) -> None:
    where = Partition(topic, 0)
    with Relay(own.bootstrap) as relay:
        broker = connect(relay.address)
        topics, sink, reader = broker.topics(), broker.sink(), broker.reader()
        member = broker.group_reader(f"{topic}-group")
        topics.create([TopicSpec(topic, 1)])
        member.subscribe([topic])
        until(lambda: [member.poll(0.1), member.assignment()][1])
        member.seek(where, 0)
        member.resume([where])
        reader.assign([where])
        reader.seek(where, 0)
        sink.send(topic, b"1", b"before").wait(30)
        until(lambda: reader.poll(0.1))
        until(lambda: member.poll(0.1))
        before = own.bootstrap
        own.move()
        assert own.bootstrap != before
        relay.target = own.bootstrap
        until(lambda: _described(topics, topic))
        until(lambda: _passes(lambda: sink.send(topic, b"2", b"after").wait(5)))
        until(lambda: any(record.value == b"after" for record in reader.poll(0.1)))
        until(lambda: any(record.value == b"after" for record in member.poll(0.1)))
        broker.close()
