"""Putting access rules into force on an Apache Kafka cluster with an authoriser."""

from __future__ import annotations

from collections.abc import Collection

from kafka import KafkaAdminClient
from kafka import errors as kafka_errors
from kafka.admin import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourceType,
)
from kafka.protocol.admin.client_quotas import AlterClientQuotasRequest

from broker.kafka.translate import translated
from broker.permissions import Permission

QUOTA = "producer_byte_rate"
"""Kafka's own name of the limit on what a principal may send."""


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
        for error in answer["failed"]:
            raise error


def limit_rate(admin: KafkaAdminClient, principal: str, bytes_per_second: float) -> None:
    """Let the brokers slow a principal's sends down to so many bytes a second, on each broker.

    Admission itself cannot depend on a rate: it is a function of the plan and the log alone.

    Args:
        admin: of somebody who may alter the cluster's configuration.
        principal: ``User:NAME``.
        bytes_per_second: positive.

    Raises:
        FatalError: refused, with the broker's reason.
        RecoverableError: the broker does not answer.
    """
    entry = AlterClientQuotasRequest.EntryData
    name = principal.removeprefix("User:")
    request = AlterClientQuotasRequest(
        entries=[
            entry(
                entity=[entry.EntityData(entity_type="user", entity_name=name)],
                ops=[entry.OpData(key=QUOTA, value=float(bytes_per_second), remove=False)],
            )
        ],
        validate_only=False,
    )
    with translated(f"limiting {principal}"):
        manager = admin._manager  # noqa: SLF001 - the client has no call of its own for quotas
        answer = manager.run(manager.send, request)
        for one in answer.entries:
            if one.error_code:
                raise kafka_errors.for_code(one.error_code)(one.error_message)


def _rule(principal: str, one: Permission, host: str) -> ACL:
    pattern = ResourcePattern(
        ResourceType[one.kind.upper()],
        one.name,
        ACLResourcePatternType.PREFIXED if one.prefixed else ACLResourcePatternType.LITERAL,
    )
    return ACL(principal, host, ACLOperation[one.operation], ACLPermissionType.ALLOW, pattern)
