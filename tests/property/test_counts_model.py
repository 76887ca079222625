"""A model of a final, its counts and deletions: every state that two publishers can reach.

One window, two groups. A publisher reads each topic when it likes, writes one record at a time, and
can stop before or after any write. Contents need no model: records of one key are equal. The rules
that the product follows hold in every state; each rule taken away alone breaks one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

GROUPS = frozenset({0, 1})
MISSING = -1  # stands for the counts topic while it does not exist


@dataclass(frozen=True)
class Rules:
    """How publishers behave.

    Attributes:
        counts_first: whether publishers write the counts before the tables and the manifest.
        read_back: whether a final is complete only after its counts were read.
        all_groups: with ``read_back``, whether the counts of all groups must have been read, and
            not of one only.
        loss: whether the counts topic may once be deleted, and later be created again, before the
            closed record is deleted.
        same_topic: whether a publisher deletes only while the counts topic is the one it has read.
    """

    counts_first: bool = True
    read_back: bool = True
    all_groups: bool = True
    loss: bool = False
    same_topic: bool = True


@dataclass(frozen=True)
class Publisher:
    """One process; None was not read since its start, when it found ``topic``."""

    topic: int = 0
    table: bool | None = None
    manifest: bool = False
    counts: frozenset[int] | None = None
    closed: bool | None = None
    writing: tuple[object, ...] = ()

    @property
    def caught_up(self) -> bool:
        return self.table is not None and self.counts is not None and self.closed is not None


@dataclass(frozen=True)
class World:
    """The topics, two publishers and what has happened; ``topic`` numbers the counts topics."""

    publishers: tuple[Publisher, Publisher] = (Publisher(), Publisher())
    table: bool = False
    manifest: bool = False
    counts: frozenset[int] = frozenset()
    closed: bool = True
    lost: bool = False
    topic: int = 0


def complete(rules: Rules, one: Publisher) -> bool:
    if not one.table or not one.manifest:
        return False
    if not rules.read_back:
        return True
    assert one.counts is not None
    return one.counts == GROUPS if rules.all_groups else bool(one.counts)


def writes(rules: Rules) -> tuple[object, ...]:
    own, tables = tuple(sorted(GROUPS)), ("table", "manifest")
    return (*own, *tables) if rules.counts_first else (*tables, *own)


def moves(rules: Rules, world: World) -> Iterator[World]:
    for number, one in enumerate(world.publishers):
        for after, changed in steps(rules, world, one):
            yield with_publisher(after, number, changed)
        yield with_publisher(world, number, Publisher(topic=world.topic))
    if rules.loss and not world.lost and world.closed:
        yield replace(world, counts=frozenset(), lost=True, topic=MISSING)
    if world.topic == MISSING:
        yield replace(world, topic=1)


def with_publisher(world: World, number: int, one: Publisher) -> World:
    """Return the state with a changed publisher. The order of the two is no matter."""
    pair = (one, world.publishers[1 - number])
    return replace(world, publishers=min(pair, pair[::-1], key=lambda two: hash(two[0])))


def steps(rules: Rules, world: World, one: Publisher) -> Iterator[tuple[World, Publisher]]:
    """Yield what a publisher's next step may give: a topic read, one record written, a deletion."""
    # A set is read record by record, but the last manifest of a key replaces those before it.
    yield world, replace(one, table=world.table, manifest=world.manifest)
    if one.topic == world.topic:
        yield world, replace(one, counts=world.counts)
    if one.table is not None and one.counts is not None:
        # A publisher keeps what it has merged, also if the other one deletes the record.
        yield world, replace(one, closed=bool(one.closed) or world.closed)
    if one.writing:
        record, left = one.writing[0], replace(one, writing=one.writing[1:])
        written = appended(world, record)
        if record not in GROUPS or world.topic != MISSING:
            yield written, left
        # Without an acknowledgement it begins again, whether the record was written or not.
        yield written, replace(one, writing=())
        yield world, replace(one, writing=())
    elif one.caught_up and one.closed and not complete(rules, one):
        yield world, replace(one, writing=writes(rules))
    elif one.caught_up and may_delete(rules, world, one) and world.closed:
        yield replace(world, closed=False), one


def may_delete(rules: Rules, world: World, one: Publisher) -> bool:
    return complete(rules, one) and (one.topic == world.topic or not rules.same_topic)


def appended(world: World, record: object) -> World:
    if record in ("table", "manifest"):
        return replace(world, **{str(record): True})
    if world.topic == MISSING:
        return world
    return replace(world, counts=world.counts | {record})  # type: ignore[arg-type]


def broken(world: World) -> str:
    kept = world.counts == GROUPS
    if not world.closed and not (world.table and world.manifest):
        return "the closed record is deleted without a final"
    if not world.closed and not kept:
        return "the closed record is deleted without counts"
    if world.table and world.manifest and not kept and not world.lost:
        return "a final names counts that are not there"
    return ""


def reachable(rules: Rules) -> tuple[set[World], str]:
    seen, left = {World()}, deque([World()])
    while left:
        for world in moves(rules, left.popleft()):
            if world in seen:
                continue
            if why := broken(world):
                return seen, why
            seen.add(world)
            left.append(world)
    return seen, ""


def finished(rules: Rules, world: World) -> World:
    """Return the last state if nothing fails any more: one new publisher starts and works."""
    world = replace(world, topic=max(world.topic, 0))
    one = Publisher(topic=world.topic)
    for _ in range(2):
        one = replace(one, table=world.table, manifest=world.manifest, counts=world.counts)
        one = replace(one, closed=bool(one.closed) or world.closed)
        if one.closed and not complete(rules, one):
            for record in writes(rules):
                world = appended(world, record)
    one = replace(one, table=world.table, manifest=world.manifest, counts=world.counts)
    return replace(world, closed=world.closed and not may_delete(rules, world, one))


@pytest.mark.parametrize("loss", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_no_state_breaks_a_rule_and_every_state_ends_well(loss: bool) -> None:
    rules = Rules(loss=loss)
    states, why = reachable(rules)
    assert why == ""
    assert len(states) > 1000
    for state in states:
        end = finished(rules, state)
        assert not end.closed
        assert end.table
        assert end.counts == GROUPS


@pytest.mark.parametrize(
    ("rules", "why"),
    [
        (Rules(counts_first=False), "a final names counts that are not there"),
        pytest.param(
            Rules(read_back=False, loss=True),
            "the closed record is deleted without counts",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            Rules(all_groups=False, loss=True),
            "the closed record is deleted without counts",
            marks=pytest.mark.slow,
        ),
        (Rules(same_topic=False, loss=True), "the closed record is deleted without counts"),
    ],
)
def test_each_rule_is_needed(rules: Rules, why: str) -> None:
    assert reachable(rules)[1] == why
