"""Access rules on an Apache Kafka cluster with an authoriser."""

from __future__ import annotations

from collections.abc import Collection

from kafka import KafkaAdminClient
from kafka.admin import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourceType,
)

from calmstream.broker.kafka.translate import translated
from calmstream.broker.permissions import Permission


def grant(
    admin: KafkaAdminClient, principal: str, wanted: Collection[Permission], host: str = "*"
) -> None:
    """Grant permissions to a principal; it keeps those that it already has."""
    with translated(f"granting permissions to {principal}"):
        response = admin.create_acls([_rule(principal, item, host) for item in wanted])
        for error in response["failed"]:
            raise error


def _rule(principal: str, permission: Permission, host: str) -> ACL:
    """Return the Kafka access rule that grants one permission."""
    literal, prefixed = ACLResourcePatternType.LITERAL, ACLResourcePatternType.PREFIXED
    pattern = ResourcePattern(
        ResourceType[permission.kind.upper()],
        permission.name,
        prefixed if permission.prefixed else literal,
    )
    operation = ACLOperation[permission.operation]
    return ACL(principal, host, operation, ACLPermissionType.ALLOW, pattern)
