"""The facts about a plan's topics on which its counts rest."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from calmstream.broker.names import COMPACTED_BYTES, CentralNames, TopicNames
from calmstream.broker.transport import Broker, TopicInfo, Topics, TopicSpec
from calmstream.common.errors import FatalError
from calmstream.estimators.plan import Plan
from calmstream.estimators.plan.state_size import record_bytes

SETTINGS = (
    "cleanup.policy",
    "message.timestamp.type",
    "retention.ms",
    "retention.bytes",
    "max.message.bytes",
)
"""The settings that are checked."""

# A worker that takes over a partition reads the last state record and then the reports after it.
# The last state record can be old: its writer may have been frozen for a session (30 s), and
# compaction leaves the present segment, which lasts ten minutes, unchanged. Reports must be kept
# for longer than that.
RETENTION_MARGIN_MS = 30 * 60_000

MAX_DEAD_LETTER_BYTES = 16 << 10
"""Maximum size of a dead letter, which describes a rejected record: the first bytes of its key and
value, headers, and the broker's overhead."""


_REMEDY_OF_TIMES = (
    "; times of records close windows, so records with their senders' times must go, or be "
    "counted into a new output namespace"
)


@dataclass(frozen=True, slots=True)
class TopicFault:
    """A fact that is not as the plan needs it, and the remedy.

    Unless it ``stops`` the counting, only new reports are refused.
    """

    text: str
    stops: bool = True


def required_retention_ms(plan: Plan) -> int:
    return (plan.window + plan.grace + plan.skew) * 1000 + RETENTION_MARGIN_MS


def faults(
    plan: Plan, names: TopicNames, found: Mapping[str, TopicInfo], used: Collection[str]
) -> Iterator[TopicFault]:
    """Yield what is wrong with the used topics; a setting that was not read counts as right."""
    least = {
        **dict.fromkeys(names.all_reports, ("retention.ms", required_retention_ms(plan))),
        names.state: ("max.message.bytes", record_bytes(plan)),
        names.dead_letters: ("max.message.bytes", MAX_DEAD_LETTER_BYTES),
    }
    specs = [spec for spec in names.specs(0) if spec.name in used]
    return _faults(specs, found, least, "calmstream topics")


def central_faults(names: CentralNames, found: Mapping[str, TopicInfo]) -> Iterator[TopicFault]:
    least = {
        names.raw: ("retention.bytes", math.inf),
        # With a smaller limit the broker would refuse a release after its budget was spent.
        names.releases: ("max.message.bytes", COMPACTED_BYTES),
    }
    return _faults(names.specs(0), found, least, "calmstream central topics")


def refuse(found: Iterable[TopicFault]) -> None:
    for fault in found:
        raise FatalError(fault.text)


def verify_topics(
    plan: Plan, names: TopicNames, topics: Topics, used: Collection[str] | None = None
) -> dict[str, TopicInfo]:
    """Return the descriptions of the plan's topics; FatalError for a fault that stops counting."""
    used = [spec.name for spec in names.specs(0)] if used is None else used
    found = topics.describe(list(used), SETTINGS)
    refuse(fault for fault in faults(plan, names, found, used) if fault.stops)
    return found


def retired(names: TopicNames, found: Collection[str]) -> bool:
    """Return whether these topics of a plan are those that its retirement leaves."""
    deleted = {*names.all_reports, names.state, names.dead_letters}
    return names.snapshots in found and deleted.isdisjoint(found)


def _faults(
    specs: Iterable[TopicSpec],
    found: Mapping[str, TopicInfo],
    least: Mapping[str, tuple[str, float]],
    command: str,
) -> Iterator[TopicFault]:
    for spec in specs:
        info = found.get(spec.name)
        if info is None:
            yield TopicFault(f"topic {spec.name} does not exist; create it: {command}")
            continue
        if info.partitions < spec.partitions:
            yield TopicFault(
                f"topic {spec.name} has {info.partitions} partitions, the plan states "
                f"{spec.partitions}; was it created by hand? Delete it and create it again: "
                f"{command}"
            )
        elif info.partitions > spec.partitions:
            yield TopicFault(
                f"topic {spec.name} has {info.partitions} partitions, the plan states "
                f"{spec.partitions}: records in the others are never counted; collect under a new "
                "plan with more partitions, and retire this one",
                stops=False,
            )
        for setting in ("cleanup.policy", "message.timestamp.type"):
            wanted, real = spec.settings.get(setting), info.settings.get(setting)
            if wanted is not None and real not in (wanted, None):
                also = _REMEDY_OF_TIMES if setting == "message.timestamp.type" else ""
                yield TopicFault(
                    f"topic {spec.name} has {setting}={real}, not {wanted}; set it back, then "
                    f"start again{also}"
                )
        if spec.name in least:
            yield from _at_least(info, *least[spec.name])


def _at_least(info: TopicInfo, setting: str, minimum: float) -> Iterator[TopicFault]:
    value = info.settings.get(setting)
    unlimited = value == "-1" and setting.startswith("retention")
    if value is not None and not unlimited and int(value) < minimum:
        needs = "-1, without limit" if minimum == math.inf else f"at least {minimum}"
        yield TopicFault(
            f"topic {info.name} has {setting}={value}, the plan needs {needs}; raise it, then "
            "start again"
        )


WEEK_MS = 7 * 86_400_000


def ensure_topics(broker: Broker, plan: Plan, names: TopicNames) -> list[str]:
    """Create missing topics and verify all; return the names of the created ones."""
    retention = max(WEEK_MS, 2 * required_retention_ms(plan))
    topics = broker.topics()
    created = topics.create(names.specs(retention))
    used = [spec.name for spec in names.specs(0)]
    refuse(faults(plan, names, topics.describe(used), used))
    return created
