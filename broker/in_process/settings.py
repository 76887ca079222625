"""Topic settings by their Kafka names: the defaults, and those that the in-process log follows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from calmstream.common.errors import FatalError

# All topic settings of Kafka 4.1 with their defaults. The list also contains settings that have no
# effect on the in-process broker, because it must accept every name that Kafka accepts.
DEFAULTS: Mapping[str, str] = {
    "cleanup.policy": "delete",
    "compression.gzip.level": "-1",
    "compression.lz4.level": "9",
    "compression.type": "producer",
    "compression.zstd.level": "3",
    "delete.retention.ms": "86400000",
    "file.delete.delay.ms": "60000",
    "flush.messages": "9223372036854775807",
    "flush.ms": "9223372036854775807",
    "follower.replication.throttled.replicas": "",
    "index.interval.bytes": "4096",
    "leader.replication.throttled.replicas": "",
    "local.retention.bytes": "-2",
    "local.retention.ms": "-2",
    "max.compaction.lag.ms": "9223372036854775807",
    "max.message.bytes": "1048588",
    "message.timestamp.after.max.ms": "3600000",
    "message.timestamp.before.max.ms": "9223372036854775807",
    "message.timestamp.type": "CreateTime",
    "min.cleanable.dirty.ratio": "0.5",
    "min.compaction.lag.ms": "0",
    "min.insync.replicas": "1",
    "preallocate": "false",
    "remote.log.copy.disable": "false",
    "remote.log.delete.on.disable": "false",
    "remote.storage.enable": "false",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "segment.bytes": "1073741824",
    "segment.index.bytes": "10485760",
    "segment.jitter.ms": "0",
    "segment.ms": "604800000",
    "unclean.leader.election.enable": "false",
}


@dataclass(frozen=True, slots=True)
class LogRules:
    """The settings that a partition's log follows.

    Attributes:
        append_time: whether the broker sets the timestamps of records (LogAppendTime).
        compacted: whether compaction removes records whose key has a newer record.
        deletes_old_records: whether records older than ``retention_ms`` are deleted.
        max_message_bytes: maximum size of a record with its batch header, in bytes.
        delete_retention_ms: how long compaction keeps a tombstone, in milliseconds.
        retention_ms: how long records are kept, in milliseconds; -1 means without limit.
    """

    append_time: bool
    compacted: bool
    deletes_old_records: bool
    max_message_bytes: int
    delete_retention_ms: int
    retention_ms: int


def with_defaults(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the given settings of a topic and the defaults of all others."""
    unknown = sorted(set(settings) - set(DEFAULTS))
    if unknown:
        raise FatalError(f"unknown topic setting {unknown[0]!r}")
    return {**DEFAULTS, **settings}


def log_rules(settings: Mapping[str, str]) -> LogRules:
    """Return the rules of a log."""
    policies = {policy.strip() for policy in settings["cleanup.policy"].split(",")}
    timestamp_type = settings["message.timestamp.type"]
    if not policies <= {"compact", "delete"}:
        raise FatalError(f"cleanup.policy must be compact or delete, not {sorted(policies)}")
    if timestamp_type not in {"CreateTime", "LogAppendTime"}:
        raise FatalError(
            f"message.timestamp.type must be CreateTime or LogAppendTime, not {timestamp_type}"
        )
    try:
        return LogRules(
            append_time=timestamp_type == "LogAppendTime",
            compacted="compact" in policies,
            deletes_old_records="delete" in policies,
            max_message_bytes=int(settings["max.message.bytes"]),
            delete_retention_ms=int(settings["delete.retention.ms"]),
            retention_ms=int(settings["retention.ms"]),
        )
    except ValueError as error:
        raise FatalError(f"a topic setting is not a number: {error}") from error
