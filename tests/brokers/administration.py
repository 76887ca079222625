"""What an administrator does to topics and groups, and the product never does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import MemberToRemove, NewPartitions

from calmstream.broker.transport import Partition


@contextmanager
def administrator(bootstrap: str) -> Iterator[KafkaAdminClient]:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        yield admin
    finally:
        admin.close()


def grow(bootstrap: str, topic: str, partitions: int) -> None:
    with administrator(bootstrap) as admin:
        admin.create_partitions({topic: NewPartitions(total_count=partitions)})


def trim(bootstrap: str, offsets: Mapping[Partition, int]) -> None:
    """Delete the records below these offsets, as retention does."""
    with administrator(bootstrap) as admin:
        admin.delete_records({TopicPartition(*where): end for where, end in offsets.items()})


def expel(bootstrap: str, group: str) -> None:
    """Remove the only member of a group, as after a missed session."""
    with administrator(bootstrap) as admin:
        (member,) = admin.describe_groups([group])[group]["members"]
        admin.remove_group_members(group, [MemberToRemove(member_id=member["member_id"])])
