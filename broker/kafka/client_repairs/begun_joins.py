"""Repair of a consumer that forgets a group join that it has begun.

Fault: the leader of a group joins again when the partitions of its topics change. During the join
it assigns the present partitions, and from then on kafka-python sees no reason to join. If a poll
ends at that moment, no later poll takes the result of the join.
Effect: the member has stopped its heartbeats for the join. The group expels it, it does not notice,
and it owns no partition from then on.
Repair: a join that has begun counts as a reason to join until its result has been taken.
"""

from __future__ import annotations

from kafka import KafkaConsumer


def complete_begun_joins(consumer: KafkaConsumer) -> None:
    """Let polls continue a join until its result has been taken."""
    coordinator = consumer._coordinator
    client_needs_rejoin = coordinator.need_rejoin

    def need_rejoin() -> bool:
        begun = coordinator.rejoining and consumer.subscription() is not None
        return bool(begun or client_needs_rejoin())

    coordinator.need_rejoin = need_rejoin
