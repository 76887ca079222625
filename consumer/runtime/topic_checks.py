"""The checks of a plan's topics before a worker counts anything."""

from __future__ import annotations

from collections.abc import Mapping

from broker.names import TopicNames
from broker.transport import TopicInfo, Topics
from estimators.errors import FatalError
from estimators.plan import Plan

# Input must be kept longer than compaction can leave a stale state record as the last one: a worker
# frozen for its session, a state segment that rolls after ten minutes, and the cleaner's delay.
RETENTION_MARGIN_MS = 30 * 60_000

MAX_DEAD_LETTER_BYTES = 16 << 10
"""Largest dead letter: the first bytes of a key and of a value, headers, the broker's overhead."""


def required_retention_ms(plan: Plan) -> int:
    """Return the least retention of reports: window + grace + skew + a margin for stale state."""
    return (plan.window + plan.grace + plan.skew) * 1000 + RETENTION_MARGIN_MS


def verify_topics(plan: Plan, names: TopicNames, topics: Topics) -> dict[str, TopicInfo]:
    """Check the plan's topics, and return them as they are.

    Raises:
        FatalError: a topic is missing or has the wrong partitions or settings; the first one is
            named.
    """
    expected = [spec.name for spec in names.specs(required_retention_ms(plan))]
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


def _at_least(
    found: Mapping[str, TopicInfo], topic: str, setting: str, least: int, *, unlimited: bool
) -> None:
    value = found[topic].settings.get(setting)
    if value is None:
        return
    number = int(value)
    if number < least and not (unlimited and number == -1):
        raise FatalError(f"topic {topic} has {setting}={number}, the plan needs at least {least}")
