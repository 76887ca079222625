"""A consumer that lost its partitions still claims them when it joins its group again.

Fault: a member states the partitions that it owns when it joins, so that it keeps them.
kafka-python never clears that list.
Effect: after a loss the member claims partitions that belong to other members by then.
Repair: the list is cleared when partitions are lost.
"""

from __future__ import annotations

from kafka import KafkaConsumer


def forget_claims(consumer: KafkaConsumer) -> None:
    """Let a member that lost its partitions join without a claim to them."""
    for assignor in consumer._coordinator._assignors.values():
        if hasattr(assignor, "member_assignment"):  # only sticky assignors make claims
            assignor.member_assignment = None
