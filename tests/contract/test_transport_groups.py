"""Check how every transport assigns partitions to consumer groups, in process and on real Kafka."""

from __future__ import annotations

import time

import pytest

from calmstream.broker.transport import AssignmentChanges, GroupReader, Partition
from calmstream.common.errors import FatalError
from tests.contract.conftest import DEADLINE, Bench, until


class Member:
    """A group member that resumes from the start whatever it is given, and notes everything."""

    def __init__(self, reader: GroupReader) -> None:
        self.reader = reader
        self.changes: list[AssignmentChanges] = []
        self.values: list[bytes | None] = []

    def turn(self, timeout: float = 0.1) -> None:
        self.values += [record.value for record in self.reader.poll(timeout)]
        changes = self.reader.take_changes()
        if changes != AssignmentChanges():
            self.changes.append(changes)
        for partition in changes.added:
            self.reader.seek(partition, 0)
        self.reader.resume(changes.added)

    def owned(self) -> frozenset[Partition]:
        return self.reader.assignment()


def _member(bench: Bench, group: str, topic: str) -> Member:
    reader = bench.broker.group_reader(group)
    reader.subscribe([topic])
    return Member(reader)


def _all(topic: str, count: int) -> frozenset[Partition]:
    return frozenset(Partition(topic, number) for number in range(count))


def _settle(everything: frozenset[Partition], *members: Member) -> None:
    """Let the members take turns until they share all partitions without overlap, none idle."""

    def shared() -> bool:
        for member in members:
            member.turn()
        owned = [member.owned() for member in members]
        return (
            all(owned)
            and sum(map(len, owned)) == len(everything)
            and frozenset().union(*owned) == everything
        )

    until(shared)


def test_a_lone_member_gets_all_partitions_paused(bench: Bench) -> None:
    topic = bench.topic(partitions=3)
    for number in range(3):
        bench.fill(topic, [b"%d" % number], partition=number)
    group = bench.name("g")
    reader = bench.broker.group_reader(group)
    reader.subscribe([topic])
    assert reader.assignment() == frozenset()
    assert not reader.joined()
    until(lambda: reader.poll(0.1) or reader.assignment())
    assert reader.joined()
    added = _all(topic, 3)
    assert reader.assignment() == added
    assert reader.take_changes() == AssignmentChanges(added=added)
    assert reader.take_changes() == AssignmentChanges()
    assert [reader.poll(0.2) for _ in range(3)] == [[], [], []]
    one = Partition(topic, 1)
    with pytest.raises(FatalError, match=r"position"):
        reader.position(one)
    with pytest.raises(FatalError, match=r"position"):
        reader.resume([one])
    reader.seek(one, 0)
    assert reader.position(one) == 0
    reader.resume([one])
    got = []
    until(lambda: got.extend(reader.poll(0.1)) or got)
    assert [(r.partition, r.value) for r in got] == [(one, b"1")]
    assert reader.end_offset(one) == 1
    assert reader.end_offset(Partition(topic, 0)) is None
    if bench.kind != "shared":  # its members share one group of another name
        topics = bench.broker.topics()
        assert topics.owned([group, bench.name("nobody")]) == added
        reader.close(5.0)
        until(lambda: topics.owned([group]) == frozenset())


def test_pause_and_resume(bench: Bench) -> None:
    topic = bench.topic(partitions=2)
    member = _member(bench, bench.name("g"), topic)
    _settle(_all(topic, 2), member)
    one = Partition(topic, 0)
    member.reader.pause([one, Partition(topic, 7)])
    bench.fill(topic, [b"paused"], partition=0)
    bench.fill(topic, [b"open"], partition=1)
    until(lambda: member.turn() or member.values)
    member.turn(0.5)
    assert member.values == [b"open"]
    member.reader.resume([one, Partition(topic, 7)])
    until(lambda: member.turn() or len(member.values) == 2)
    assert member.values == [b"open", b"paused"]


def test_a_partition_that_was_paused_after_a_part_of_its_records_is_read_on(bench: Bench) -> None:
    topic = bench.topic(partitions=2)
    reader = bench.broker.group_reader(bench.name("g"))
    reader.subscribe([topic])
    until(lambda: reader.poll(0.1) or len(reader.assignment()) == 2)
    one, other = Partition(topic, 0), Partition(topic, 1)
    reader.seek(one, 0)
    reader.seek(other, 0)
    bench.fill(topic, [b"%d" % number for number in range(9)], partition=0)
    reader.resume([one])
    got: list[bytes | None] = []

    def poll(limit: int) -> list[bytes | None]:
        got.extend(record.value for record in reader.poll(0.1, limit))
        return got

    until(lambda: poll(4))
    read = len(got)
    assert read <= 4
    reader.pause([one])
    reader.resume([other])
    bench.fill(topic, [b"other"], partition=1)
    until(lambda: poll(4)[read:])
    assert got[read:] == [b"other"]
    reader.resume([one])
    until(lambda: len(poll(4)) == 10)
    assert got[:read] + got[read + 1 :] == [b"%d" % number for number in range(9)]


def test_committed_offsets_are_never_used_as_positions(bench: Bench) -> None:
    topic, group = bench.topic(), bench.name("g")
    bench.fill(topic, [b"0", b"1"])
    first = _member(bench, group, topic)
    until(lambda: first.turn() or len(first.values) == 2)
    first.reader.commit({Partition(topic, 0): 2})
    first.reader.commit({Partition("not-mine", 0): 2})
    first.turn()
    first.reader.close(DEADLINE)
    second = _member(bench, group, topic)
    until(lambda: second.turn() or len(second.values) == 2)
    assert second.values == [b"0", b"1"]


def test_two_members_share_and_one_takes_over_when_the_other_leaves(bench: Bench) -> None:
    topic, group = bench.topic(partitions=4), bench.name("g")
    first = _member(bench, group, topic)
    _settle(_all(topic, 4), first)
    second = _member(bench, group, topic)
    _settle(_all(topic, 4), first, second)
    assert len(first.owned()) == len(second.owned()) == 2
    revoked = frozenset().union(*(change.revoked for change in first.changes))
    assert second.owned() <= revoked
    assert not any(change.lost for member in (first, second) for change in member.changes)
    second.reader.close(DEADLINE)
    _settle(_all(topic, 4), first)
    for number in range(4):
        bench.fill(topic, [b"%d" % number], partition=number)
    until(lambda: first.turn() or len(first.values) >= 4)
    assert sorted(v for v in first.values if v) == [b"0", b"1", b"2", b"3"]


def test_members_that_poll_briefly_and_work_between_polls_settle_too(bench: Bench) -> None:
    topic, group = bench.topic(partitions=4), bench.name("g")
    members = [_member(bench, group, topic) for _ in range(2)]

    def shared() -> bool:
        for member in members:
            member.turn(0.02)
            time.sleep(0.15 if bench.kind == "kafka" else 0)  # the work between two polls
        return [len(member.owned()) for member in members] == [2, 2]

    until(shared)
    changes = sum(len(member.changes) for member in members)
    assert changes <= 6  # joined once, shared once; not over and over


def test_an_expelled_member_has_lost_its_partitions_and_may_come_back(bench: Bench) -> None:
    topic, group = bench.topic(partitions=2), bench.name("g")
    member = _member(bench, group, topic)
    _settle(_all(topic, 2), member)
    member.changes.clear()
    bench.expire(group, member.reader)
    until(lambda: member.turn() or member.changes)
    assert member.changes[0].lost == _all(topic, 2)
    assert not any(change.revoked for change in member.changes)
    _settle(_all(topic, 2), member)
    added = frozenset().union(*(change.added for change in member.changes))
    assert added == _all(topic, 2)


def test_a_member_that_comes_back_is_not_shown_the_end_of_a_silent_log(bench: Bench) -> None:
    """A fetch session shows a partition's end once. Nobody may wait for it to be shown again."""
    topic, group = bench.topic(partitions=2), bench.name("g")
    for number in range(2):
        bench.fill(topic, [b"old"], partition=number)
    member = _member(bench, group, topic)
    _settle(_all(topic, 2), member)
    until(lambda: member.turn() or all(member.reader.end_offset(p) == 1 for p in _all(topic, 2)))
    bench.expire(group, member.reader)
    lost: set[Partition] = set()

    def back() -> bool:
        assert member.reader.poll(0.1) == []
        changes = member.reader.take_changes()
        lost.update(changes.lost)
        return changes.added == _all(topic, 2)

    until(back)
    assert lost == _all(topic, 2)
    for partition in _all(topic, 2):
        member.reader.seek(partition, 1)
    member.reader.resume(_all(topic, 2))
    for _ in range(10):
        assert member.reader.poll(0.1) == []
        assert [member.reader.end_offset(p) for p in _all(topic, 2)] == [None, None]
    bench.fill(topic, [b"new"], partition=0)
    until(lambda: member.reader.poll(0.1))
    assert member.reader.end_offset(Partition(topic, 0)) == 2
    assert member.reader.end_offset(Partition(topic, 1)) is None


def test_a_member_changes_its_topics_and_keeps_the_partitions_of_the_others(bench: Bench) -> None:
    kept, left, new = bench.topic(partitions=2), bench.topic(), bench.topic()
    reader = bench.broker.group_reader(bench.name("g"))
    reader.subscribe([kept, left])
    member = Member(reader)
    before = _all(kept, 2) | _all(left, 1)
    until(lambda: member.turn() or member.owned() == before)
    member.changes.clear()
    with pytest.raises(FatalError, match=r"does not exist"):
        reader.subscribe([kept, new, bench.name()])
    reader.subscribe([kept, new])
    after = _all(kept, 2) | _all(new, 1)
    until(lambda: member.turn() or member.owned() == after)
    bench.fill(new, [b"new"])
    bench.fill(kept, [b"kept"])
    until(lambda: member.turn() or set(member.values) == {b"new", b"kept"})
    changed = [change.gone | change.added for change in member.changes]
    assert frozenset().union(*changed) == _all(left, 1) | _all(new, 1)


def test_members_with_different_topics_share_only_what_both_want(bench: Bench) -> None:
    both, mine = bench.topic(partitions=2), bench.topic()
    group = bench.name("g")
    readers = [bench.broker.group_reader(group), bench.broker.group_reader(group)]
    readers[0].subscribe([both, mine])
    readers[1].subscribe([both])
    members = [Member(reader) for reader in readers]
    _settle(_all(both, 2) | _all(mine, 1), *members)
    assert _all(mine, 1) <= members[0].owned()
    assert members[1].owned() <= _all(both, 2)


def test_a_member_reads_while_another_delays_a_change(bench: Bench) -> None:
    """The second member does not poll: on Kafka the change of the first one waits for it."""
    topic, beside, new, group = bench.topic(), bench.topic(), bench.topic(), bench.name("g")
    first, second = _member(bench, group, topic), _member(bench, group, beside)
    until(lambda: first.turn() or second.turn() or (first.owned() and second.owned()))
    first.reader.subscribe([topic, new])
    first.turn(0.5)
    for number in range(3):
        value = b"during the change %d" % number
        bench.fill(topic, [value])
        until(lambda value=value: first.turn() or value in first.values)
    bench.fill(new, [b"new"])
    until(lambda: first.turn() or second.turn() or b"new" in first.values)
    assert first.owned() == _all(topic, 1) | _all(new, 1)


def test_the_partitions_of_a_topic_that_one_member_drops_go_to_the_other(bench: Bench) -> None:
    """No other partition moves then, so no second change follows the first one."""
    common, group = bench.topic(partitions=2), bench.name("g")
    own = [bench.topic(partitions=2) for _ in range(2)]
    first, second = (Member(bench.broker.group_reader(group)) for _ in own)
    first.reader.subscribe([own[0], common])
    second.reader.subscribe([own[1], common])

    def turned(*wanted: frozenset[Partition]) -> bool:
        first.turn()
        second.turn()
        return (first.owned(), second.owned()) == wanted

    def shared() -> bool:
        turned()
        return [len(first.owned()), len(second.owned())] == [3, 3]

    until(shared)
    first.reader.subscribe([own[0]])
    until(lambda: turned(_all(own[0], 2), _all(own[1], 2) | _all(common, 2)))
