"""Topic names of a plan, and the settings that its topics must have.

Local plans have :class:`TopicNames`. Central plans have :class:`CentralNames`: other topics with
other readers, so that raw records never share a topic with reports.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass
from typing import Literal

from calmstream.broker.transport import Partition, TopicSpec
from calmstream.common.errors import InvalidInput
from calmstream.common.text import plan_name as name_of
from calmstream.estimators.plan import Plan

CountingRole = Literal["tally", "publisher"]
DEFAULT_NAMESPACE = "calmstream"

_NAMESPACE = re.compile(r"[a-z0-9]([a-z0-9.-]{0,62}[a-z0-9])?")
_DAY_MS = 86_400_000
_MINUTE_MS = 60_000

MAX_RECORD_BYTES = 8 << 20
"""Maximum size in bytes of a state record, a snapshot record or a release."""

MAX_REPORTS_BYTES = 2 << 20
"""Maximum size in bytes of a record in a reports topic. It is twice the maximum size of a batch, so
that a batch that is too large is received, rejected for its size and kept as a dead letter."""

# Kafka counts the record batch's own overhead too; 4 KiB is more than that overhead.
COMPACTED_BYTES = MAX_RECORD_BYTES + 4096


@dataclass(frozen=True, slots=True)
class TopicNames:
    """Names of the topics of one plan in one namespace.

    Each group of devices has its own reports topic. All other topics are in ``output_namespace``,
    if there is one: a log is counted again into another namespace, so that existing results are
    never overwritten.
    """

    namespace: str
    plan_name: str
    digest: str
    groups: int
    partitions: int
    output_namespace: str = ""

    def __post_init__(self) -> None:
        _check_namespaces(self.namespace, self.results_namespace)

    @staticmethod
    def of(
        plan: Plan, namespace: str = DEFAULT_NAMESPACE, output_namespace: str = ""
    ) -> TopicNames:
        return TopicNames(
            namespace, plan.name, plan.digest, len(plan.groups), plan.partitions, output_namespace
        )

    @property
    def prefix(self) -> str:
        return _prefix(self.namespace, self.plan_name, self.digest)

    @property
    def results_namespace(self) -> str:
        return self.output_namespace or self.namespace

    @property
    def output_prefix(self) -> str:
        return _prefix(self.results_namespace, self.plan_name, self.digest)

    def group(self, role: CountingRole) -> str:
        """Return the consumer group of processes that serve this plan alone."""
        return f"{self.output_prefix}.{role}"

    def groups_of(self, role: CountingRole) -> tuple[str, str]:
        """Return that group, and the one of processes that serve many plans."""
        return self.group(role), shared_group(self.results_namespace, role)

    def reports(self, group: int) -> str:
        return f"{self.prefix}.reports.g{group:04d}"

    @property
    def all_reports(self) -> tuple[str, ...]:
        return tuple(self.reports(group) for group in range(self.groups))

    @property
    def inputs(self) -> list[Partition]:
        return [Partition(topic, n) for topic in self.all_reports for n in range(self.partitions)]

    @property
    def state(self) -> str:
        return f"{self.output_prefix}.state"

    @property
    def snapshots(self) -> str:
        return f"{self.output_prefix}.snapshots"

    @property
    def counts(self) -> str:
        return f"{self.output_prefix}.counts"

    @property
    def dead_letters(self) -> str:
        return f"{self.output_prefix}.dead-letters"

    def group_of(self, topic: str) -> int:
        return int(topic.rsplit(".g", 1)[1])

    def specs(self, input_retention_ms: int) -> list[TopicSpec]:
        """Return every topic of the plan with the settings that correctness needs.

        Reports are kept for longer than window, grace, skew, the longest interruption of a worker,
        and the state topic's compaction lag together.
        """
        reports = {
            "cleanup.policy": "delete",
            "message.timestamp.type": "LogAppendTime",
            "retention.ms": str(input_retention_ms),
            "max.message.bytes": str(MAX_REPORTS_BYTES),
        }
        # Small segments and a low dirty ratio let the broker compact soon, because a restart reads
        # the whole topic. Tombstones stay for a day, so that slow readers see them.
        compacted = {
            "cleanup.policy": "compact",
            "max.message.bytes": str(COMPACTED_BYTES),
            "segment.bytes": str(64 << 20),
            "segment.ms": str(10 * _MINUTE_MS),
            "min.cleanable.dirty.ratio": "0.1",
            "delete.retention.ms": str(_DAY_MS),
        }
        # The size is bounded too, because every sender of reports can cause rejections.
        dead_letters = {
            "cleanup.policy": "delete",
            "retention.ms": str(30 * _DAY_MS),
            "retention.bytes": str(1 << 30),
            "max.message.bytes": str(1 << 20),
        }
        return [
            *(TopicSpec(name, self.partitions, reports) for name in self.all_reports),
            TopicSpec(self.state, self.partitions, compacted),
            TopicSpec(self.snapshots, 1, compacted),
            TopicSpec(self.counts, 1, compacted),
            TopicSpec(self.dead_letters, 1, dead_letters),
        ]


@dataclass(frozen=True, slots=True)
class CentralNames:
    """Names of the two topics of a central plan in one namespace, as of `TopicNames`.

    Only the aggregator may read ``raw``, raw records; everyone may read ``releases``, with noise.
    """

    namespace: str
    plan_name: str
    digest: str
    partitions: int

    def __post_init__(self) -> None:
        _check_namespaces(self.namespace)

    @property
    def _prefix(self) -> str:
        return f"{_prefix(self.namespace, self.plan_name, self.digest)}.central"

    @property
    def raw(self) -> str:
        return f"{self._prefix}.raw"

    @property
    def releases(self) -> str:
        return f"{self._prefix}.releases"

    @property
    def raw_partitions(self) -> list[Partition]:
        return [Partition(self.raw, number) for number in range(self.partitions)]

    def specs(self, window_ms: int) -> list[TopicSpec]:
        """Return both topics; raw records are kept for two windows and a day."""
        raw = {
            "cleanup.policy": "delete",
            "message.timestamp.type": "LogAppendTime",
            "retention.ms": str(2 * window_ms + _DAY_MS),
            # With a limit on size, one sender could cause the deletion of another sender's records.
            "retention.bytes": "-1",
            "max.message.bytes": str(MAX_REPORTS_BYTES),
        }
        releases = {
            "cleanup.policy": "compact",
            "max.message.bytes": str(COMPACTED_BYTES),
        }
        return [TopicSpec(self.raw, self.partitions, raw), TopicSpec(self.releases, 1, releases)]


def shared_group(namespace: str, role: CountingRole) -> str:
    """Return the consumer group of all processes that serve many plans in a role.

    No plan's names begin with it: in those, a hyphen and a digest follow the name.
    """
    return f"{namespace}.plans.{role}"


def _check_namespaces(*namespaces: str) -> None:
    for namespace in namespaces:
        if not _NAMESPACE.fullmatch(namespace):
            raise InvalidInput(f"namespace {namespace!r}: lower-case letters, digits, . and -")


def _prefix(namespace: str, plan_name: str, digest: str) -> str:
    return f"{namespace}.{name_of(plan_name, digest)}"


def partition_of(key: bytes, partitions: int) -> int:
    return zlib.crc32(key) % partitions
