"""Check that every kind of Kafka client finds its broker again at another address."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from calmstream.broker.kafka import connect
from calmstream.broker.transport import Partition, TopicSpec
from calmstream.common.errors import RecoverableError
from tests.brokers.native import NativeKafka
from tests.brokers.provide import or_skip
from tests.brokers.relay import Relay
from tests.contract.conftest import until

pytestmark = pytest.mark.kafka


@pytest.fixture
def own() -> Iterator[NativeKafka]:
    broker = NativeKafka()
    with or_skip():
        broker.start()
    yield broker
    broker.close()


def test_clients_find_a_single_broker_that_comes_back_at_another_address(own: NativeKafka) -> None:
    topic = f"moved-{uuid.uuid4().hex[:8]}"
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

        def described() -> bool:
            try:
                return topic in topics.describe([topic])
            except RecoverableError:
                return False

        def sent() -> bool:
            try:
                sink.send(topic, b"2", b"after").wait(5)
            except RecoverableError:
                return False
            return True

        until(described)
        until(sent)
        until(lambda: any(record.value == b"after" for record in reader.poll(0.1)))
        until(lambda: any(record.value == b"after" for record in member.poll(0.1)))
        broker.close()
