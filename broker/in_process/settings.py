"""Topic settings by their Kafka names: defaults, checks, and the rules of a log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from estimators.errors import FatalError

# Kafka 4.1's topic settings and their defaults. Settings without effect here are listed too,
# so that exactly the names that Kafka refuses are refused.
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
    """Rules of a partition's log. Sizes in bytes, times in milliseconds, -1 = unlimited."""

    append_time: bool
    compacted: bool
    deleted: bool
    max_message_bytes: int
    delete_retention_ms: int
    retention_ms: int


def complete(settings: Mapping[str, str]) -> dict[str, str]:
    """Return all settings of a topic, with defaults.

    Raises:
        FatalError: a setting that Kafka does not have.
    """
    unknown = sorted(set(settings) - set(DEFAULTS))
    if unknown:
        raise FatalError(f"unknown topic setting {unknown[0]!r}")
    return {**DEFAULTS, **settings}


def rules(settings: Mapping[str, str]) -> LogRules:
    """Return the rules that complete settings state.

    Raises:
        FatalError: a value that Kafka would refuse.
    """
    policies = {policy.strip() for policy in settings["cleanup.policy"].split(",")}
    stamp = settings["message.timestamp.type"]
    if not policies <= {"compact", "delete"}:
        raise FatalError(f"cleanup.policy must be compact or delete, not {sorted(policies)}")
    if stamp not in {"CreateTime", "LogAppendTime"}:
        raise FatalError(f"message.timestamp.type must be CreateTime or LogAppendTime, not {stamp}")
    try:
        return LogRules(
            append_time=stamp == "LogAppendTime",
            compacted="compact" in policies,
            deleted="delete" in policies,
            max_message_bytes=int(settings["max.message.bytes"]),
            delete_retention_ms=int(settings["delete.retention.ms"]),
            retention_ms=int(settings["retention.ms"]),
        )
    except ValueError as error:
        raise FatalError(f"a topic setting is not a number: {error}") from error
