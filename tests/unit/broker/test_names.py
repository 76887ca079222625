"""Check names and settings of the topics of local and central plans."""

from __future__ import annotations

import random

import pytest

from calmstream.broker.names import CentralNames, TopicNames, partition_of
from calmstream.common.errors import InvalidInput

DIGEST = "0123456789abcdef" * 4
LOCAL = TopicNames("ns", "plan", DIGEST, groups=2, partitions=3)
CENTRAL = CentralNames("ns", "plan", DIGEST, partitions=3)


def test_names_hold_namespace_plan_and_digest() -> None:
    assert LOCAL.reports(1) == "ns.plan-0123456789abcdef0123456789abcdef.reports.g0001"
    assert (CENTRAL.raw, CENTRAL.releases) == (
        "ns.plan-0123456789abcdef0123456789abcdef.central.raw",
        "ns.plan-0123456789abcdef0123456789abcdef.central.releases",
    )
    assert not {spec.name for spec in LOCAL.specs(0)} & {CENTRAL.raw, CENTRAL.releases}


@pytest.mark.parametrize("namespace", ["", "NS", "a/b", "-a", "a" * 65])
def test_a_namespace_is_checked(namespace: str) -> None:
    with pytest.raises(InvalidInput, match="namespace"):
        TopicNames(namespace, "plan", DIGEST, 1, 1)
    with pytest.raises(InvalidInput, match="namespace"):
        CentralNames(namespace, "plan", DIGEST, 1)


def test_the_longest_names_are_allowed_in_kafka() -> None:
    names = TopicNames("n" * 64, "p" * 64, "f" * 64, 9999, 1, "o" * 64)
    assert max(len(spec.name) for spec in names.specs(0)) <= 249


def test_every_partition_is_used_about_equally() -> None:
    numbers = random.Random(3)
    counts = [0] * 7
    for _ in range(7000):
        counts[partition_of(numbers.randbytes(16), 7)] += 1
    assert all(800 < count < 1200 for count in counts)
