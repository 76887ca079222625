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

from calmstream.broker.kafka.client_repairs.missing_calls import send_request
from calmstream.broker.kafka.translate import translated
from calmstream.broker.permissions import Permission

QUOTA = "producer_byte_rate"
"""Kafka's name of the limit on the bytes per second that a principal may send."""


def grant(
    admin: KafkaAdminClient, principal: str, wanted: Collection[Permission], host: str = "*"
) -> None:
    """Grant permissions to a principal; it keeps those that it already has."""
    with translated(f"granting permissions to {principal}"):
        response = admin.create_acls([_rule(principal, item, host) for item in wanted])
        for error in response["failed"]:
            raise error


def limit_rate(admin: KafkaAdminClient, principal: str, bytes_per_second: float) -> None:
    """Limit the rate at which each broker accepts records of a principal.

    A broker delays a sender that exceeds the limit. Which reports are counted does not change: that
    depends on the plan and the log alone.
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
        response = send_request(admin, request)
        for result in response.entries:
            if result.error_code:
                raise kafka_errors.for_code(result.error_code)(result.error_message)


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
