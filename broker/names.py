"""Topic names of a plan, and the settings they must have."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from broker.transport import TopicInfo, TopicSpec
from estimators.errors import FatalError, InvalidInput

_NAMESPACE = re.compile(r"[a-z0-9]([a-z0-9.-]{0,62}[a-z0-9])?")
_DAY_MS = 86_400_000
_MINUTE_MS = 60_000
MAX_RECORD_BYTES = 8 << 20
# Twice the largest batch: one that is too large should be seen, refused for its reason and kept.
MAX_REPORTS_BYTES = 2 << 20


@dataclass(frozen=True, slots=True)
class TopicNames:
    """Names of the topics of one plan in one namespace.

    Attributes:
        namespace: lower-case letters, digits, dots and hyphens.
        plan_name: the plan's name.
        digest: the plan's digest; its first 8 digits go into the names.
        groups: number of groups.
        partitions: of every reports topic and of the state topic.
        output_namespace: of state, snapshots and dead letters; empty for the same one. Counting an
            old log again goes into another one, never over what stands.
    """

    namespace: str
    plan_name: str
    digest: str
    groups: int
    partitions: int
    output_namespace: str = ""

    def __post_init__(self) -> None:
        for namespace in (self.namespace, self.output_namespace or self.namespace):
            if not _NAMESPACE.fullmatch(namespace):
                raise InvalidInput(f"namespace {namespace!r}: lower-case letters, digits, . and -")

    def _prefix(self, namespace: str) -> str:
        return f"{namespace}.{self.plan_name}-{self.digest[:8]}"

    @property
    def prefix(self) -> str:
        """What the names of the reports topics start with."""
        return self._prefix(self.namespace)

    @property
    def output_prefix(self) -> str:
        """What all other names of the plan start with."""
        return self._prefix(self.output_namespace or self.namespace)

    def reports(self, group: int) -> str:
        """Reports topic of one group."""
        return f"{self.prefix}.reports.g{group:04d}"

    @property
    def all_reports(self) -> tuple[str, ...]:
        """Reports topics in group order."""
        return tuple(self.reports(group) for group in range(self.groups))

    @property
    def state(self) -> str:
        """State topic."""
        return f"{self.output_prefix}.state"

    @property
    def snapshots(self) -> str:
        """Snapshots topic."""
        return f"{self.output_prefix}.snapshots"

    @property
    def dead_letters(self) -> str:
        """Dead-letter topic."""
        return f"{self.output_prefix}.dead-letters"

    def group_of(self, topic: str) -> int:
        """Group whose reports topic this is."""
        return int(topic.rsplit(".g", 1)[1])

    def state_partition(self, partition: int) -> int:
        """State partition that holds all records of input partition ``partition`` of any group."""
        return partition

    def specs(self, input_retention_ms: int) -> list[TopicSpec]:
        """Every topic of the plan with the settings that correctness needs.

        Args:
            input_retention_ms: how long reports are kept; must exceed window + grace + skew + the
                longest freeze of a worker + the state topic's compaction lag.
        """
        reports = {
            "cleanup.policy": "delete",
            "message.timestamp.type": "LogAppendTime",
            "retention.ms": str(input_retention_ms),
            "max.message.bytes": str(MAX_REPORTS_BYTES),
        }
        compacted = {
            "cleanup.policy": "compact",
            "max.message.bytes": str(MAX_RECORD_BYTES + 4096),
            "segment.bytes": str(64 << 20),
            "segment.ms": str(10 * _MINUTE_MS),
            "min.cleanable.dirty.ratio": "0.1",
            "delete.retention.ms": str(_DAY_MS),
        }
        # Bounded in size too: whoever may write to a reports topic can have records rejected.
        letters = {
            "cleanup.policy": "delete",
            "retention.ms": str(30 * _DAY_MS),
            "retention.bytes": str(1 << 30),
            "max.message.bytes": str(1 << 20),
        }
        return [
            *(TopicSpec(name, self.partitions, reports) for name in self.all_reports),
            TopicSpec(self.state, self.partitions, compacted),
            TopicSpec(self.snapshots, 1, compacted),
            TopicSpec(self.dead_letters, 1, letters),
        ]

    def verify(self, found: Mapping[str, TopicInfo]) -> None:
        """Whether the topics exist as :meth:`specs` makes them, as far as correctness needs it.

        Raises:
            FatalError: the first difference, with what was expected and what was found.
        """
        for spec in self.specs(0):
            info = found.get(spec.name)
            if info is None:
                raise FatalError(f"topic {spec.name} does not exist; create it: calmstream topics")
            if info.partitions != spec.partitions:
                raise FatalError(
                    f"topic {spec.name} has {info.partitions} partitions, "
                    f"the plan states {spec.partitions}"
                )
            for name in ("cleanup.policy", "message.timestamp.type"):
                expected = spec.settings.get(name)
                if expected is not None and info.settings.get(name) != expected:
                    raise FatalError(
                        f"topic {spec.name} has {name}={info.settings.get(name)}, not {expected}"
                    )
