"""Check that two plans whose digests begin alike share nothing."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import cache

import pytest

from calmstream.broker.names import TopicNames
from calmstream.broker.permissions import ROLES, permissions
from calmstream.broker.topic_facts import ensure_topics
from calmstream.estimators.plan import Plan
from tests.support.faulty_broker import FaultyBroker
from tests.support.tally import names_of, small_plan
from tests.support.tally_bench import Stage


@cache
def alike() -> tuple[Plan, Plan]:
    """Return two plans of one name whose digests begin with 32 equal bits, found by trying."""
    plan = replace(small_plan(), purpose="purpose ?")
    before, after = plan.to_bytes().split(b"?")
    seen: dict[bytes, int] = {}
    for number in range(1 << 20):
        digest = hashlib.sha256(before + str(number).encode() + after).digest()[:4]
        if digest in seen:
            pair = (replace(plan, purpose=f"purpose {n}") for n in (seen[digest], number))
            one, other = pair
            assert one.digest[:8] == other.digest[:8]
            assert one.digest != other.digest
            return one, other
        seen[digest] = number
    raise AssertionError("no two of a million digests begin alike")


def test_plans_with_digests_that_begin_alike_are_counted_side_by_side() -> None:
    one, other = alike()
    first, second = Stage(one), Stage(other)
    second.broker, second.clock = first.broker, first.clock
    second.topics, second.sink = first.broker.topics(), first.broker.sink()
    assert set(second.topics.create(second.names.specs(10**9))) == {
        spec.name for spec in second.names.specs(0)
    }, "no topic is the other plan's"
    first.batch(0, [1, 1, 1])
    second.batch(0, [2, 2])
    for stage in (first, second):
        stage.turns(stage.worker())
    assert [s.states()[-1].open[0].tally.reports for s in (first, second)] == [3, 2]


def test_the_topics_of_the_other_plan_are_not_verified() -> None:
    one, other = alike()
    broker = FaultyBroker()
    ensure_topics(broker, one, names_of(one))
    assert ensure_topics(broker, other, names_of(other)), "its own topics are created"


@pytest.mark.parametrize("role", ROLES)
def test_no_permission_on_a_prefix_covers_the_other_plan(role: str) -> None:
    one, other = (names_of(plan) for plan in alike())
    mine = {p.name for p in permissions(role, one) if p.prefixed}
    theirs = [spec.name for spec in other.specs(0)]
    assert not [name for name in theirs if name.startswith(tuple(mine))]


def test_the_longest_names_are_allowed_in_kafka() -> None:
    names = TopicNames("n" * 64, "p" * 64, "f" * 64, 9999, 1, "o" * 64)
    assert max(len(spec.name) for spec in names.specs(0)) <= 249
