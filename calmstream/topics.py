"""The topics of a plan: creation and verification."""

from __future__ import annotations

from calmstream.broker.names import TopicNames
from calmstream.broker.topic_facts import faults, refuse, required_retention_ms
from calmstream.broker.transport import Broker
from calmstream.estimators.plan import Plan

WEEK_MS = 7 * 86_400_000


def ensure_topics(broker: Broker, plan: Plan, names: TopicNames) -> list[str]:
    """Create missing topics and verify all; return the names of the created ones.

    Reports are kept for a week, or twice as long as correctness needs where that is longer.
    """
    retention = max(WEEK_MS, 2 * required_retention_ms(plan))
    topics = broker.topics()
    try:
        created = topics.create(names.specs(retention))
        used = [spec.name for spec in names.specs(0)]
        found = topics.describe(used)
        refuse(faults(plan, names, found, used))
    finally:
        topics.close()
    return created
