"""The facts about a plan's topics on which its counts rest."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from calmstream.broker.names import TopicNames
from calmstream.broker.transport import TopicInfo, Topics, TopicSpec
from calmstream.common.errors import FatalError
from calmstream.estimators.plan import Plan

SETTINGS = ("cleanup.policy", "message.timestamp.type", "retention.ms", "max.message.bytes")
"""The settings that are checked."""

# A worker that takes over a partition reads the last state record and then the reports after it.
# The last state record can be old: its writer may have been frozen for a session (30 s), and
# compaction leaves the present segment, which lasts ten minutes, unchanged. Reports must be kept
# for longer than that.
RETENTION_MARGIN_MS = 30 * 60_000

MAX_DEAD_LETTER_BYTES = 16 << 10
"""Maximum size of a dead letter, which describes a rejected record: the first bytes of its key and
value, headers, and the broker's overhead."""


_REMEDIES = {
    "message.timestamp.type": (
        "; times of records close windows, so records with their senders' times must go, or be "
        "counted into a new output namespace"
    )
}


@dataclass(frozen=True, slots=True)
class TopicFault:
    """A fact that is not as the plan needs it.

    Attributes:
        text: what is wrong, and the remedy.
        stops: whether to count on would be wrong. Otherwise only new reports are refused.
    """

    text: str
    stops: bool = True


def required_retention_ms(plan: Plan) -> int:
    """Return the minimum retention of reports in milliseconds.

    It is the sum of window, grace, skew and :data:`RETENTION_MARGIN_MS`.
    """
    return (plan.window + plan.grace + plan.skew) * 1000 + RETENTION_MARGIN_MS


def faults(
    plan: Plan, names: TopicNames, found: Mapping[str, TopicInfo], used: Collection[str]
) -> Iterator[TopicFault]:
    """Yield what is wrong with the used topics; a setting that was not read counts as right."""
    least = {
        **dict.fromkeys(names.all_reports, ("retention.ms", required_retention_ms(plan))),
        names.state: ("max.message.bytes", plan.state_record_bytes),
        names.dead_letters: ("max.message.bytes", MAX_DEAD_LETTER_BYTES),
    }
    for spec in names.specs(0):
        if spec.name not in used:
            continue
        yield from faults_of(spec, found)
        if spec.name in least and spec.name in found:
            yield from _at_least(found[spec.name], *least[spec.name])


def faults_of(spec: TopicSpec, found: Mapping[str, TopicInfo]) -> Iterator[TopicFault]:
    """Yield what is wrong with one topic: its existence, its partitions, and two settings."""
    info = found.get(spec.name)
    if info is None:
        yield TopicFault(f"topic {spec.name} does not exist; create it: calmstream topics")
        return
    yield from _partitions(spec.name, info.partitions, spec.partitions)
    for setting in ("cleanup.policy", "message.timestamp.type"):
        wanted, real = spec.settings.get(setting), info.settings.get(setting)
        if wanted is not None and real not in (wanted, None):
            yield TopicFault(
                f"topic {spec.name} has {setting}={real}, not {wanted}; set it back, then "
                "start again" + _REMEDIES.get(setting, "")
            )


def verify_topics(
    plan: Plan, names: TopicNames, topics: Topics, used: Collection[str] | None = None
) -> dict[str, TopicInfo]:
    """Check the plan's topics; return their descriptions by name.

    Raises:
        FatalError: a topic is missing, or has too few partitions or a wrong setting; the message
            names the first fault and the remedy.
    """
    used = [spec.name for spec in names.specs(0)] if used is None else used
    found = topics.describe(list(used), SETTINGS)
    for fault in faults(plan, names, found, used):
        if fault.stops:
            raise FatalError(fault.text)
    return found


def _partitions(topic: str, real: int, wanted: int) -> Iterator[TopicFault]:
    if real < wanted:
        yield TopicFault(
            f"topic {topic} has {real} partitions, the plan states {wanted}; was it created by "
            "hand? Delete it and create it again: calmstream topics"
        )
    elif real > wanted:
        yield TopicFault(
            f"topic {topic} has {real} partitions, the plan states {wanted}: reports in the others "
            "are never counted; collect under a new plan with more partitions, and retire this one",
            stops=False,
        )


def _at_least(info: TopicInfo, setting: str, minimum: int) -> Iterator[TopicFault]:
    value = info.settings.get(setting)
    number = minimum if value is None else int(value)
    unlimited = setting == "retention.ms" and number == -1
    if number < minimum and not unlimited:
        yield TopicFault(
            f"topic {info.name} has {setting}={number}, the plan needs at least {minimum}; raise "
            "it, then start again"
        )
