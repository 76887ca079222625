"""A model of finals and their tests of change: every state that two publishers can reach.

Two windows. A publisher reads each topic when it likes, finds closed records in any order, writes
one record at a time, and can stop before or after any write. The tests of a window are computed
from counts that were read, and are written later. Nothing waits for them, deletions neither.

The rules that the product follows hold in every state, and from every state one publisher that
starts anew makes the same records. Each rule taken away alone breaks that.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import pytest

COUNTS = (1, 2)
"""The records of counts of windows 0 and 1, as bits of the counts topic."""
TESTS = (4, 8)
BLIND = 16
"""Tests of window 1 that do not know the counts of window 0."""
RIGHT = sum(COUNTS) + sum(TESTS)
BOTH = 3
"""The finals, or the closed records, of both windows."""


@dataclass(frozen=True)
class Rules:
    """How publishers make tests.

    Attributes:
        found: whether windows without tests are found in the topic, not noted in memory.
        kept: whether tests read the counts topic, not the closed records.
        ordered: whether a window waits for the counts of the one before.
        to_the_end: whether counts are called lost only after the counts topic was read to its end.
    """

    found: bool = True
    kept: bool = True
    ordered: bool = True
    to_the_end: bool = True


class Topics(NamedTuple):
    """What the topics hold. ``closing``: how many windows every partition has closed."""

    finals: int = 0
    counts: int = 0
    closed: int = 0
    closing: int = 0


class Publisher(NamedTuple):
    """What one process has read since its start, and what it is about to write.

    ``own`` are the finals that it has begun to write; ``final`` is the step of that, 0 for none:
    1 and 2 write counts and final of window 0, 3 and 4 those of window 1. ``tests`` is a record.
    """

    finals: int = 0
    counts: int = 0
    closed: int = 0
    own: int = 0
    final: int = 0
    tests: int = 0

    def complete(self, window: int) -> bool:
        """Return whether final and counts of a window were read."""
        return bool(self.finals & self.counts & 1 << window)


World = tuple[Topics, tuple[Publisher, ...]]


def started(topics: Topics) -> Publisher:
    """Return a publisher that has read all topics once."""
    return Publisher(topics.finals, topics.counts, topics.closed)


def moves(rules: Rules, world: World) -> Iterator[World]:
    """Yield every state that is one step away. Which publisher is the first is no matter."""
    topics, publishers = world
    if topics.closing < 2:
        closed = topics.closed | 1 << topics.closing
        yield topics._replace(closed=closed, closing=topics.closing + 1), publishers
    for number, one in enumerate(publishers):
        others = (*publishers[:number], *publishers[number + 1 :])
        for after, changed in (*steps(rules, topics, one), (topics, started(topics))):
            yield after, tuple(sorted((changed, *others)))


def steps(rules: Rules, topics: Topics, one: Publisher) -> Iterator[tuple[Topics, Publisher]]:
    """Yield the results of every next step of one publisher."""
    yield topics, one._replace(finals=topics.finals)
    yield topics, one._replace(counts=topics.counts)
    yield topics, one._replace(closed=topics.closed)
    for bit in (1, 2):
        if bit & topics.closed & ~one.closed:
            yield topics, one._replace(closed=one.closed | bit)
        if bit & topics.closed and one.complete(bit >> 1):
            yield topics._replace(closed=topics.closed & ~bit), one
    if one.tests:
        yield topics._replace(counts=topics.counts | one.tests), one._replace(tests=0)
    elif made := due(rules, topics, one):
        yield topics, one._replace(tests=made)
    if one.final:
        written = appended(topics, one.final)
        yield written, one._replace(final=one.final + 1 if one.final in (1, 3) else 0)
        return
    for window in (0, 1):
        if one.closed >> window & 1 and not one.complete(window):
            own = 0 if rules.found else one.own | 1 << window
            yield topics, one._replace(final=2 * window + 1, own=own)
            break


def due(rules: Rules, topics: Topics, one: Publisher) -> int:
    """Return the record of tests that a publisher makes next, 0 if there is none."""
    through = 1 if one.counts & (TESTS[1] | BLIND) else 0 if one.counts & TESTS[0] else -1
    usable = one.counts if rules.found else one.counts & one.own
    usable = usable if rules.kept else usable & one.closed
    window = next((w for w in (0, 1) if w > through and usable & COUNTS[w]), None)
    if window is None or not one.complete(window):
        return 0
    if window == 0 or one.counts & COUNTS[0]:
        return TESTS[window]
    return 0 if rules.ordered and may_come(rules, topics, one) else BLIND


def may_come(rules: Rules, topics: Topics, one: Publisher) -> bool:
    """Return whether the counts of window 0, which were not read, may come."""
    if not one.finals & 1 or one.closed & 1:
        return True
    return rules.to_the_end and one.counts != topics.counts


def appended(topics: Topics, step: int) -> Topics:
    """Return the topics after a step of writing a final."""
    bit = 1 if step <= 2 else 2
    if step in (1, 3):
        return topics._replace(counts=topics.counts | bit)
    return topics._replace(finals=topics.finals | bit)


def finished(rules: Rules, topics: Topics) -> Topics:
    """Return the topics if nothing fails any more: one new publisher starts and works."""
    topics = topics._replace(closed=topics.closed | BOTH & ~((1 << topics.closing) - 1))
    own = 0
    for _ in range(6):
        one = started(topics)._replace(own=own)
        missing = [w for w in (0, 1) if one.closed >> w & 1 and not one.complete(w)]
        for window in missing[:1]:
            topics = appended(appended(topics, 2 * window + 1), 2 * window + 2)
            own |= 1 << window
        if not missing:
            topics = topics._replace(counts=topics.counts | due(rules, topics, one))
    return topics


def broken(rules: Rules, publishers: int) -> str:
    """Return what goes wrong in some state; "" if nothing does."""
    start: World = (Topics(), (Publisher(),) * publishers)
    seen, ends, left = {start}, set(), deque([start])
    while left:
        state = left.popleft()
        if state[0] not in ends:
            ends.add(state[0])
            if state[0].counts & BLIND:
                return "tests leave out counts"
            if finished(rules, state[0]).counts != RIGHT:
                return "tests are missing"
        for world in moves(rules, state):
            if world not in seen:
                seen.add(world)
                left.append(world)
    assert len(seen) > 100
    return ""


@pytest.mark.parametrize("publishers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_every_publisher_writes_the_same_tests_and_none_is_missing(publishers: int) -> None:
    assert broken(Rules(), publishers) == ""


@pytest.mark.parametrize(
    ("rules", "why"),
    [
        (Rules(found=False), "tests are missing"),
        (Rules(kept=False), "tests are missing"),
        (Rules(ordered=False), "tests leave out counts"),
        (Rules(to_the_end=False), "tests leave out counts"),
    ],
)
def test_each_rule_is_needed(rules: Rules, why: str) -> None:
    assert broken(rules, 2) == why
