"""Topic settings by their Kafka names: the defaults, and those that the in-process log follows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from calmstream.common.errors import FatalError

# Kafka's defaults of the settings that calmstream and its tests use.
DEFAULTS: Mapping[str, str] = {
    "cleanup.policy": "delete",
    "delete.retention.ms": "86400000",
    "max.compaction.lag.ms": "9223372036854775807",
    "max.message.bytes": "1048588",
    "message.timestamp.type": "CreateTime",
    "min.cleanable.dirty.ratio": "0.5",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "segment.bytes": "1073741824",
    "segment.ms": "604800000",
}
_VALUES = {
    "cleanup.policy": {"compact", "delete", "compact,delete"},
    "message.timestamp.type": {"CreateTime", "LogAppendTime"},
}


@dataclass(frozen=True, slots=True)
class LogRules:
    """What a partition's log follows; sizes in bytes, times in milliseconds.

    Attributes:
        append_time: whether the broker sets the timestamps of records (LogAppendTime).
        compacted: whether compaction removes records whose key has a newer record.
        deletes_old_records: whether records older than ``retention_ms`` are deleted.
        delete_retention_ms: how long compaction keeps a tombstone.
        retention_ms: how long records are kept; -1 means without limit.
    """

    append_time: bool
    compacted: bool
    deletes_old_records: bool
    max_message_bytes: int
    delete_retention_ms: int
    retention_ms: int

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> LogRules:
        """Return the rules that a topic's settings state; FatalError for a wrong value."""
        for name, allowed in _VALUES.items():
            if settings[name] not in allowed:
                raise FatalError(f"{name} must be one of {sorted(allowed)}, not {settings[name]!r}")
        try:
            return cls(
                append_time=settings["message.timestamp.type"] == "LogAppendTime",
                compacted="compact" in settings["cleanup.policy"],
                deletes_old_records="delete" in settings["cleanup.policy"],
                max_message_bytes=int(settings["max.message.bytes"]),
                delete_retention_ms=int(settings["delete.retention.ms"]),
                retention_ms=int(settings["retention.ms"]),
            )
        except ValueError as error:
            raise FatalError(f"a topic setting is not a number: {error}") from error


def with_defaults(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the given settings of a topic and the defaults of all others."""
    for unknown in sorted(settings.keys() - DEFAULTS.keys()):
        raise FatalError(f"unknown topic setting {unknown!r}")
    return {**DEFAULTS, **settings}
