"""Repair of a member that joins its group twice when its topics change.

Fault: kafka-python joins before it knows the partitions of new topics, and once more when it knows
them. A leader also compares the topics of an assignment with those of the metadata before it.
Effect: each change of the topics costs all members two joins.
Repair: the metadata of new topics are requested before the join, and a leader remembers with which
metadata it has made an assignment.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from kafka import KafkaConsumer


def topics_known(consumer: KafkaConsumer, topics: Collection[str]) -> bool:
    """Return whether the client knows the partitions of topics; request those it does not know.

    The call never waits. It is to be repeated: a request that was on its way may lack the topics.
    """
    cluster = consumer._coordinator._cluster
    unknown = {topic for topic in topics if cluster.partitions_for_topic(topic) is None}
    if unknown:
        cluster.set_topics(cluster._topics | unknown)
        cluster.request_update()
    return not unknown


def remember_assigned_metadata(consumer: KafkaConsumer) -> None:
    """Let a leader join again only if the metadata differ from those of its assignment."""
    coordinator = consumer._coordinator
    perform = coordinator._perform_assignment

    def perform_and_remember(*arguments: Any) -> Any:
        assignments = perform(*arguments)
        snapshot = coordinator._build_metadata_snapshot(
            coordinator._subscription, coordinator._cluster
        )
        coordinator._metadata_snapshot = coordinator._assignment_snapshot = snapshot
        return assignments

    coordinator._perform_assignment = perform_and_remember
