"""A model of a final, its counts and deletions: every state that two publishers can reach.

One window, two groups. A publisher reads each topic when it likes, writes one record at a time, and
can stop before or after any write. Contents need no model: records of one key are equal, except a
manifest, which says whether counts belong to it. What remains is which records are there, which of
them each process has read, and what is deleted.

The rules that the product follows hold in every state. Each rule taken away alone breaks one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

GROUPS = frozenset({0, 1})


@dataclass(frozen=True)
class Rules:
    """How publishers behave.

    Attributes:
        counts_first: whether publishers write the counts before the tables and the manifest.
        read_back: whether a final that names counts is complete only after they were read.
        all_groups: with ``read_back``, whether the counts of all groups must have been read, and
            not of one only.
        others: the kind of the second publisher: ``new``; ``old``, of a release without counts; or
            ``late``, without a counts topic at first, with one from its next start on.
        loss: whether the counts topic may once be deleted, and later be created again, before the
            closed record is deleted.
        same_topic: whether a publisher deletes only while the counts topic is the one it has read.
        named: whether a publisher that found no counts topic keeps the closed records of a final
            that names its counts.
    """

    counts_first: bool = True
    read_back: bool = True
    all_groups: bool = True
    others: str = "new"
    loss: bool = False
    same_topic: bool = True
    named: bool = True


MISSING = -1
"""Stands for the counts topic while it does not exist."""


@dataclass(frozen=True)
class Publisher:
    """One process. ``None`` in ``table``, ``counts`` or ``closed``: not read since its start.

    ``topic`` is the counts topic that it found at its start.
    """

    keeps: bool
    topic: int = 0
    table: bool | None = None
    manifest: bool | None = None
    counts: frozenset[int] | None = None
    closed: bool | None = None
    writing: tuple[object, ...] = ()

    @property
    def caught_up(self) -> bool:
        return self.table is not None and self.counts is not None and self.closed is not None


@dataclass(frozen=True)
class World:
    """The topics, two publishers, and what has happened.

    ``manifest`` is None without one, else whether the last one names counts. ``topic`` numbers the
    counts topics, which have the same name.
    """

    publishers: tuple[Publisher, Publisher]
    table: bool = False
    manifest: bool | None = None
    counts: frozenset[int] = frozenset()
    closed: bool = True
    bare_manifest: bool = False
    lost: bool = False
    topic: int = 0


def begin(rules: Rules) -> World:
    second = Publisher(keeps=rules.others == "new")
    return World((Publisher(keeps=True), second))


def complete(rules: Rules, one: Publisher) -> bool:
    """Return whether the final is complete according to what a publisher has read."""
    if not one.table or one.manifest is None:
        return False
    if not (rules.read_back and one.keeps and one.manifest):
        return True
    assert one.counts is not None
    return one.counts == GROUPS if rules.all_groups else bool(one.counts)


def writes(rules: Rules, one: Publisher) -> tuple[object, ...]:
    """Return the records that a publisher writes, in order."""
    own = tuple(sorted(GROUPS)) if one.keeps else ()
    tables = ("table", "manifest")
    return (*own, *tables) if rules.counts_first else (*tables, *own)


def moves(rules: Rules, world: World) -> Iterator[World]:
    """Yield every state that is one step away."""
    for number, one in enumerate(world.publishers):
        for after, changed in steps(rules, world, one):
            yield with_publisher(rules, after, number, changed)
        yield with_publisher(rules, world, number, restarted(rules, world, number))
    if rules.loss and not world.lost and world.closed:
        yield replace(world, counts=frozenset(), lost=True, topic=MISSING)
    if world.topic == MISSING:
        yield replace(world, topic=1)


def with_publisher(rules: Rules, world: World, number: int, one: Publisher) -> World:
    """Return the state with a changed publisher. Of two of one release the order is no matter."""
    other = world.publishers[1 - number]
    pair = (one, other) if number == 0 else (other, one)
    if rules.others != "old" and hash(pair[1]) < hash(pair[0]):
        pair = (pair[1], pair[0])
    return replace(world, publishers=pair)


def restarted(rules: Rules, world: World, number: int) -> Publisher:
    """Return a publisher as it is after a restart; ``number`` is 1 for the second one."""
    new = number == 0 or rules.others != "old"
    return Publisher(keeps=new and world.topic != MISSING, topic=world.topic)


def steps(rules: Rules, world: World, one: Publisher) -> Iterator[tuple[World, Publisher]]:
    """Yield the results of every next step of one publisher.

    A step reads a topic to its end, writes one record, or deletes the closed record.
    """
    # A set is read record by record, but the last manifest of a key replaces those before it.
    yield world, replace(one, table=world.table, manifest=world.manifest)
    if one.topic == world.topic:
        yield world, replace(one, counts=world.counts)
    if one.table is not None and one.counts is not None:
        # A publisher keeps what it has merged, also if the other one deletes the record.
        yield world, replace(one, closed=bool(one.closed) or world.closed)
    if one.writing:
        record, left = one.writing[0], replace(one, writing=one.writing[1:])
        written = appended(world, one, record)
        if record not in GROUPS or world.topic != MISSING:
            yield written, left
        # Without an acknowledgement it begins again, whether the record was written or not.
        yield written, replace(one, writing=())
        yield world, replace(one, writing=())
    elif one.caught_up and one.closed and not complete(rules, one):
        yield world, replace(one, writing=writes(rules, one))
    elif one.caught_up and may_delete(rules, world, one) and world.closed:
        yield replace(world, closed=False), one


def may_delete(rules: Rules, world: World, one: Publisher) -> bool:
    """Return whether a publisher deletes the closed record."""
    if not complete(rules, one):
        return False
    if one.keeps:
        return one.topic == world.topic or not rules.same_topic
    of_earlier_release = rules.others == "old" and one is world.publishers[1]
    return of_earlier_release or not (rules.named and one.manifest)


def appended(world: World, one: Publisher, record: object) -> World:
    """Return the state after a publisher has appended a record."""
    if record == "table":
        return replace(world, table=True)
    if record == "manifest":
        bare = world.bare_manifest or not one.keeps
        return replace(world, manifest=one.keeps, bare_manifest=bare)
    if world.topic == MISSING:
        return world
    return replace(world, counts=world.counts | {record})  # type: ignore[arg-type]


def broken(world: World) -> str:
    """Return the rule that a state breaks; "" if it breaks none."""
    kept = world.counts == GROUPS
    if not world.closed and not (world.table and world.manifest is not None):
        return "the closed record is deleted without a final"
    if not world.closed and not kept and not world.bare_manifest:
        return "the closed record is deleted without counts"
    if world.table and world.manifest and not kept and not world.lost:
        return "a final names counts that are not there"
    return ""


def reachable(rules: Rules) -> tuple[set[World], str]:
    """Return all states and ""; or those up to the first that breaks a rule, and the rule."""
    start = begin(rules)
    seen, left = {start}, deque([start])
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
    one = Publisher(keeps=True, topic=world.topic)
    for _ in range(2):
        one = replace(one, table=world.table, manifest=world.manifest, counts=world.counts)
        one = replace(one, closed=bool(one.closed) or world.closed)
        if one.closed and not complete(rules, one):
            for record in writes(rules, one):
                world = appended(world, one, record)
    one = replace(one, table=world.table, manifest=world.manifest, counts=world.counts)
    return replace(world, closed=world.closed and not may_delete(rules, world, one))


CASES = [
    ("new", False),
    *(pytest.param(others, False, marks=pytest.mark.slow) for others in ("old", "late")),
    *(pytest.param(others, True, marks=pytest.mark.slow) for others in ("new", "late")),
]
"""An old publisher cannot notice that counts were lost: a deleted topic beside an earlier release
is the one case without a guard."""


@pytest.mark.parametrize(("others", "loss"), CASES)
def test_no_state_breaks_a_rule_and_every_state_ends_well(others: str, loss: bool) -> None:
    rules = Rules(others=others, loss=loss)
    states, why = reachable(rules)
    assert why == ""
    assert len(states) > 1000
    for state in states:
        end = finished(rules, state)
        assert not end.closed
        assert end.table
        assert end.counts == GROUPS or end.bare_manifest


@pytest.mark.parametrize(
    ("rules", "why"),
    [
        (Rules(counts_first=False), "a final names counts that are not there"),
        (Rules(counts_first=False, others="old"), "a final names counts that are not there"),
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
        pytest.param(
            Rules(named=False, loss=True),
            "the closed record is deleted without counts",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_each_rule_is_needed(rules: Rules, why: str) -> None:
    assert reachable(rules)[1] == why
