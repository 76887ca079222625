"""Repair of a consumer that lost its partitions and claims them when it joins its group again.

Fault: when a member joins, it sends a list of the partitions that it owns, so that the group lets
it keep them. kafka-python never clears that list.
Effect: after a loss the member claims partitions that belong to other members in the meantime.
Repair: the list is cleared when partitions are lost.
"""

from __future__ import annotations

from kafka import KafkaConsumer


def forget_lost_partitions(consumer: KafkaConsumer) -> None:
    """Clear the list of owned partitions, so that the member joins without a claim to them."""
    for assignor in consumer._coordinator._assignors.values():
        if hasattr(assignor, "member_assignment"):  # only sticky assignors make claims
            assignor.member_assignment = None
