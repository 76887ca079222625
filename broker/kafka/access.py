"""Putting access rules into force on an Apache Kafka cluster with an authoriser."""

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

from broker.kafka.translate import translated
from broker.permissions import Permission
from estimators.errors import FatalError


def grant(
    admin: KafkaAdminClient, principal: str, wanted: Collection[Permission], host: str = "*"
) -> None:
    """Allow a principal these; what it is allowed already stays. Nothing is ever taken away.

    Raises:
        FatalError: no authoriser, or we may not.
        RecoverableError: the broker does not answer.
    """
    with translated(f"granting permissions to {principal}"):
        answer = admin.create_acls([_rule(principal, one, host) for one in wanted])
    if answer["failed"]:
        names = sorted({error.__name__ for error in answer["failed"]})
        raise FatalError(f"granting permissions to {principal}: {', '.join(names)}")


def _rule(principal: str, one: Permission, host: str) -> ACL:
    pattern = ResourcePattern(
        ResourceType[one.kind.upper()],
        one.name,
        ACLResourcePatternType.PREFIXED if one.prefixed else ACLResourcePatternType.LITERAL,
    )
    return ACL(principal, host, ACLOperation[one.operation], ACLPermissionType.ALLOW, pattern)
