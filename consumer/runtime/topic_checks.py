"""Checks the settings of a plan's topics before a worker counts anything."""

from __future__ import annotations

from collections.abc import Mapping

from calmstream.broker.names import TopicNames
from calmstream.broker.transport import TopicInfo, Topics
from calmstream.common.errors import FatalError
from calmstream.estimators.plan import Plan

# A worker that takes over a partition reads the last state record and then the reports after it.
# The last state record can be old: its writer may have been frozen for a session (30 s), and
# compaction leaves the present segment, which lasts ten minutes, unchanged. Reports must be kept
# for longer than that.
RETENTION_MARGIN_MS = 30 * 60_000

MAX_DEAD_LETTER_BYTES = 16 << 10
"""Maximum size of a dead letter, which describes a rejected record: the first bytes of its key and
value, headers, and the broker's overhead."""


def required_retention_ms(plan: Plan) -> int:
    """Return the minimum retention of reports in milliseconds.

    It is the sum of window, grace, skew and :data:`RETENTION_MARGIN_MS`.
    """
    return (plan.window + plan.grace + plan.skew) * 1000 + RETENTION_MARGIN_MS


def verify_topics(plan: Plan, names: TopicNames, topics: Topics) -> dict[str, TopicInfo]:
    """Check the plan's topics except the counts topic, and return their descriptions by name.

    Raises:
        FatalError: a topic is missing, or has the wrong number of partitions or a wrong setting;
            the message names the first one.
    """
    expected = [spec.name for spec in names.specs(0) if spec.name != names.counts]
    found = topics.describe(expected)
    names.verify(found)
    needed = required_retention_ms(plan)
    for name in names.all_reports:
        _at_least(found, name, "retention.ms", needed, unlimited=True)
    _at_least(
        found, names.dead_letters, "max.message.bytes", MAX_DEAD_LETTER_BYTES, unlimited=False
    )
    _at_least(found, names.state, "max.message.bytes", plan.state_record_bytes, unlimited=False)
    return found


def find_counts(names: TopicNames, topics: Topics) -> TopicInfo | None:
    """Return the counts topic, or None if it does not exist or this user may not describe it.

    A plan that an earlier release has set up lacks the topic, or the permission.

    Raises:
        FatalError: it has the wrong partitions or settings.
        RecoverableError: the broker does not answer.
    """
    try:
        found = topics.describe([names.counts]).get(names.counts)
    except FatalError:
        return None
    if found is not None:
        names.verify_counts(found)
    return found


def _at_least(
    found: Mapping[str, TopicInfo], topic: str, setting: str, minimum: int, *, unlimited: bool
) -> None:
    """Check that a setting is large enough; with ``unlimited``, -1 means that there is no limit."""
    value = found[topic].settings.get(setting)
    if value is None:
        return
    number = int(value)
    if number < minimum and not (unlimited and number == -1):
        raise FatalError(f"topic {topic} has {setting}={number}, the plan needs at least {minimum}")
