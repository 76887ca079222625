"""Check that a member can join a real consumer group when its polls are shorter than the join."""

from __future__ import annotations

import secrets
import time

import pytest
from kafka import KafkaAdminClient

from calmstream.broker.kafka import connect
from calmstream.broker.transport import Partition, TopicSpec
from tests.support.service.processes import until

pytestmark = pytest.mark.kafka


def test_a_leader_whose_topic_grew_finishes_its_join(kafka_bootstrap: str) -> None:
    """Let the leader assign again during the join; then it has no other reason to join."""
    broker = connect(kafka_bootstrap, session_seconds=20.0)
    topic = f"joins-{secrets.token_hex(4)}"
    broker.topics().create([TopicSpec(topic, 1)])
    reader = broker.group_reader(topic)
    reader.subscribe([topic])

    def owns(count: int) -> bool:
        reader.poll(0.0)  # as a worker does that is busy, to stay a member
        time.sleep(0.002)
        return reader.assignment() == {Partition(topic, number) for number in range(count)}

    until("it owns the partition", lambda: owns(1), 60)
    admin = KafkaAdminClient(bootstrap_servers=kafka_bootstrap)
    admin.create_partitions({topic: 2})

    def listed() -> bool:
        return len(admin.describe_topics([topic])[0]["partitions"]) == 2

    until("the broker lists both partitions", listed, 60)  # it does so a moment after it agrees
    admin.close()
    reader._consumer._client.cluster.request_update()
    until("it owns both partitions", lambda: owns(2), 60)
    broker.close()
