"""Access rules and rate limits on an Apache Kafka cluster with an authoriser."""

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

from broker.kafka.client_repairs.missing_calls import send_request
from broker.kafka.translate import translated
from broker.permissions import Permission

QUOTA = "producer_byte_rate"
"""Kafka's name of the limit on what a principal may send."""


def grant(
    admin: KafkaAdminClient, principal: str, wanted: Collection[Permission], host: str = "*"
) -> None:
    """Grant permissions to a principal. Those that it has already stay.

    Raises:
        FatalError: the cluster has no authoriser, or this client may not grant permissions.
        RecoverableError: the broker does not answer.
    """
    with translated(f"granting permissions to {principal}"):
        answer = admin.create_acls([_rule(principal, one, host) for one in wanted])
        for error in answer["failed"]:
            raise error


def limit_rate(admin: KafkaAdminClient, principal: str, bytes_per_second: float) -> None:
    """Let every broker limit what a principal sends.

    This limit is the broker's. Admission of reports depends on the plan and the log alone, never on
    a rate.

    Args:
        admin: a client that may alter the cluster's configuration.
        principal: ``User:NAME``.
        bytes_per_second: for each broker, positive.

    Raises:
        FatalError: the broker refuses, with its reason.
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
        answer = send_request(admin, request)
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
