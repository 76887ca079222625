"""Check that missing topics and topics with other settings are refused by name before counting."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from calmstream.broker.names import CentralNames, TopicNames
from calmstream.broker.topic_facts import (
    central_faults,
    ensure_topics,
    faults,
    refuse,
    required_retention_ms,
    verify_topics,
)
from calmstream.broker.transport import TopicInfo, TopicSpec
from calmstream.common.errors import FatalError
from calmstream.estimators.plan import Plan
from tests.support.faulty_broker import FaultyBroker
from tests.support.tally import names_of, small_plan

PLAN = small_plan(partitions=2, groups=2)
NAMES = names_of(PLAN)


def made(plan: Plan, names: TopicNames, change: Callable[[TopicSpec], TopicSpec | None]) -> None:
    """Make the plan's topics, each changed or left out, and verify them."""
    broker = FaultyBroker()
    topics = broker.topics()
    changed = map(change, names.specs(required_retention_ms(plan)))
    topics.create([spec for spec in changed if spec is not None])
    verify_topics(plan, names, topics)


def setting(topic: str, name: str, value: str) -> Callable[[TopicSpec], TopicSpec]:
    return lambda s: replace(s, settings=s.settings | {name: value}) if s.name == topic else s


def test_what_the_plan_makes_is_accepted_with_the_least_retention_and_without_limit() -> None:
    made(PLAN, NAMES, lambda spec: spec)
    made(PLAN, NAMES, setting(NAMES.reports(1), "retention.ms", "-1"))


WRONG = [
    (NAMES.reports(1), "message.timestamp.type", "CreateTime"),
    (NAMES.reports(1), "retention.ms", str(required_retention_ms(PLAN) - 1)),
    (NAMES.reports(0), "cleanup.policy", "compact"),
    (NAMES.state, "cleanup.policy", "delete"),
    (NAMES.state, "max.message.bytes", "1000"),
    (NAMES.snapshots, "cleanup.policy", "delete"),
    (NAMES.counts, "cleanup.policy", "delete"),
    (NAMES.dead_letters, "max.message.bytes", "16383"),
]


@pytest.mark.parametrize(("topic", "name", "value"), WRONG)
def test_a_wrong_setting_is_named_with_its_topic(topic: str, name: str, value: str) -> None:
    with pytest.raises(FatalError, match=f"topic {topic} has {name}={value}") as stop:
        made(PLAN, NAMES, setting(topic, name, value))
    assert "\n" not in str(stop.value)


@pytest.mark.parametrize("topic", [spec.name for spec in NAMES.specs(0)])
def test_a_missing_topic_is_named_with_the_remedy(topic: str) -> None:
    with pytest.raises(FatalError, match=f"topic {topic} does not exist; create it: calmstream"):
        made(PLAN, NAMES, lambda spec: None if spec.name == topic else spec)


@pytest.mark.parametrize("topic", [NAMES.reports(0), NAMES.state])
def test_too_few_partitions_are_refused(topic: str) -> None:
    with pytest.raises(FatalError, match=f"topic {topic} has 1 partitions, the plan states 2"):
        made(PLAN, NAMES, lambda s: replace(s, partitions=1) if s.name == topic else s)


def test_more_partitions_stop_the_collection_and_not_the_counting() -> None:
    broker = FaultyBroker()
    topics = broker.topics()
    topics.create(
        [replace(spec, partitions=3) for spec in NAMES.specs(required_retention_ms(PLAN))]
    )
    found = verify_topics(PLAN, NAMES, topics)
    assert all(not fault.stops for fault in faults(PLAN, NAMES, found, list(found)))
    with pytest.raises(FatalError, match="3 partitions, the plan states 2"):
        ensure_topics(broker, PLAN, NAMES)


def test_the_command_creates_what_is_missing_once_and_verifies_the_rest() -> None:
    broker = FaultyBroker()
    everything = {spec.name for spec in NAMES.specs(0)}
    assert set(ensure_topics(broker, PLAN, NAMES)) == everything
    assert ensure_topics(broker, PLAN, NAMES) == []
    broker.topics().delete([NAMES.reports(1)])
    assert ensure_topics(broker, PLAN, NAMES) == [NAMES.reports(1)]
    broker.topics().delete([NAMES.state])
    broker.topics().create([TopicSpec(NAMES.state, 2, {"cleanup.policy": "delete"})])
    with pytest.raises(FatalError, match=r"cleanup\.policy=delete, not compact"):
        ensure_topics(broker, PLAN, NAMES)


CENTRAL = CentralNames("ns", "plan", "ab" * 32, partitions=3)


@pytest.mark.parametrize(
    ("number", "change", "said"),
    [
        (0, None, "does not exist; create it: calmstream central topics"),
        (0, {"partitions": 1}, "1 partitions, the plan states 3; .*calmstream central topics"),
        (0, {"partitions": 9}, "9 partitions, the plan states 3: "),
        (0, {"message.timestamp.type": "CreateTime"}, "type=CreateTime, not LogAppendTime"),
        (0, {"retention.bytes": "1000"}, "retention.bytes=1000, the plan needs -1"),
        (1, {"max.message.bytes": "1000"}, "max.message.bytes=1000, the plan needs at least 8392"),
    ],
)
def test_what_is_wrong_with_a_central_topic_is_named(
    number: int, change: dict[str, Any] | None, said: str
) -> None:
    specs = CENTRAL.specs(60_000)
    found = {s.name: TopicInfo(s.name, "id", s.partitions, s.settings) for s in specs}
    refuse(central_faults(CENTRAL, found))
    topic = found.pop(specs[number].name)
    if change is not None:
        settings = {**topic.settings, **change}
        changed = replace(topic, **change) if "partitions" in change else topic
        found[topic.name] = replace(changed, settings=settings)
    with pytest.raises(FatalError, match=f"{topic.name} .*{said}"):
        refuse(central_faults(CENTRAL, found))
