"""Check names and settings of the topics of local and central plans."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from calmstream.broker.names import CentralNames, TopicNames
from calmstream.broker.transport import TopicInfo
from calmstream.common.errors import FatalError, InvalidInput

DIGEST = "0123456789abcdef" * 4
LOCAL = TopicNames("ns", "plan", DIGEST, groups=2, partitions=3)
CENTRAL = CentralNames("ns", "plan", DIGEST, partitions=3)


def created(names: TopicNames | CentralNames) -> dict[str, TopicInfo]:
    return {s.name: TopicInfo(s.name, "id", s.partitions, s.settings) for s in names.specs(60_000)}


def changed(
    topics: dict[str, TopicInfo], topic: str, settings: Mapping[str, str]
) -> dict[str, TopicInfo]:
    info = topics[topic]
    return topics | {topic: replace(info, settings={**info.settings, **settings})}


def test_names_hold_namespace_plan_and_digest() -> None:
    assert LOCAL.reports(1) == "ns.plan-0123456789abcdef0123456789abcdef.reports.g0001"
    assert (CENTRAL.raw, CENTRAL.releases) == (
        "ns.plan-0123456789abcdef0123456789abcdef.central.raw",
        "ns.plan-0123456789abcdef0123456789abcdef.central.releases",
    )
    assert not set(created(LOCAL)) & set(created(CENTRAL))


@pytest.mark.parametrize("namespace", ["", "NS", "a/b", "-a", "a" * 65])
def test_a_namespace_is_checked(namespace: str) -> None:
    with pytest.raises(InvalidInput, match="namespace"):
        TopicNames(namespace, "plan", DIGEST, 1, 1)
    with pytest.raises(InvalidInput, match="namespace"):
        CentralNames(namespace, "plan", DIGEST, 1)


def test_differences_of_central_topics_are_named() -> None:
    names, topics = CENTRAL, created(CENTRAL)
    names.verify(topics)
    first = next(iter(topics))
    with pytest.raises(FatalError, match=f"{first} does not exist; create it: calmstream central"):
        names.verify({name: info for name, info in topics.items() if name != first})
    with pytest.raises(FatalError, match=f"{first} has 9 partitions, the plan states 3"):
        names.verify(topics | {first: replace(topics[first], partitions=9)})
    times = {"message.timestamp.type": "CreateTime"}
    with pytest.raises(FatalError, match=r"type=CreateTime, not LogAppendTime"):
        names.verify(changed(topics, first, times))


def test_a_central_topic_is_not_deleted_by_size_and_takes_every_release() -> None:
    topics = created(CENTRAL)
    with pytest.raises(FatalError, match=r"retention.bytes=1000, not -1"):
        CENTRAL.verify(changed(topics, CENTRAL.raw, {"retention.bytes": "1000"}))
    with pytest.raises(FatalError, match=r"max.message.bytes=1000, expected at least 8392704"):
        CENTRAL.verify(changed(topics, CENTRAL.releases, {"max.message.bytes": "1000"}))
