"""Topics of a central plan: apart from those of local reports in name, settings and readers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from broker.names import MAX_RECORD_BYTES, MAX_REPORTS_BYTES
from broker.transport import Partition, TopicInfo, TopicSpec
from estimators.errors import FatalError

_DAY_MS = 86_400_000
_RELEASE_BYTES = MAX_RECORD_BYTES + 4096


@dataclass(frozen=True, slots=True)
class CentralNames:
    """Names of the two topics.

    Attributes:
        namespace: lower-case letters, digits, dots and hyphens.
        plan_name: the plan's name.
        digest: the plan's digest; its first 8 digits go into the names.
        partitions: of the raw topic.
    """

    namespace: str
    plan_name: str
    digest: str
    partitions: int

    @property
    def _prefix(self) -> str:
        return f"{self.namespace}.{self.plan_name}-{self.digest[:8]}.central"

    @property
    def raw(self) -> str:
        """Raw records: readable by the aggregator only."""
        return f"{self._prefix}.raw"

    @property
    def releases(self) -> str:
        """Noisy releases, for everyone."""
        return f"{self._prefix}.releases"

    @property
    def raw_partitions(self) -> list[Partition]:
        """All partitions of the raw topic."""
        return [Partition(self.raw, number) for number in range(self.partitions)]

    def specs(self, window_ms: int) -> list[TopicSpec]:
        """Both topics; raw records are kept for two windows and a day, no longer."""
        raw = {
            "cleanup.policy": "delete",
            "message.timestamp.type": "LogAppendTime",
            "retention.ms": str(2 * window_ms + _DAY_MS),
            # Deleting by size would make what counts in a window depend on who else sent.
            "retention.bytes": "-1",
            "max.message.bytes": str(MAX_REPORTS_BYTES),
        }
        releases = {
            "cleanup.policy": "compact",
            "max.message.bytes": str(_RELEASE_BYTES),
        }
        return [TopicSpec(self.raw, self.partitions, raw), TopicSpec(self.releases, 1, releases)]

    def verify(self, found: Mapping[str, TopicInfo]) -> None:
        """Whether both exist as they must.

        Raises:
            FatalError: the first difference.
        """
        for spec in self.specs(0):
            info = found.get(spec.name)
            if info is None:
                raise FatalError(
                    f"topic {spec.name} does not exist; create it: calmstream central topics"
                )
            if info.partitions != spec.partitions:
                raise FatalError(
                    f"topic {spec.name} has {info.partitions} partitions, not {spec.partitions}"
                )
            for name in ("cleanup.policy", "message.timestamp.type", "retention.bytes"):
                expected = spec.settings.get(name)
                if expected is not None and info.settings.get(name) != expected:
                    raise FatalError(
                        f"topic {spec.name} has {name}={info.settings.get(name)}, not {expected}"
                    )
        self._verify_room(found[self.releases])

    def _verify_room(self, releases: TopicInfo) -> None:
        """One that takes smaller records would refuse a release that is paid for."""
        room = int(releases.settings.get("max.message.bytes", _RELEASE_BYTES))
        if room < _RELEASE_BYTES:
            raise FatalError(
                f"topic {releases.name} has max.message.bytes={room}, at least {_RELEASE_BYTES} "
                "are needed"
            )
