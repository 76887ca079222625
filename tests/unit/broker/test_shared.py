"""Check what the shares of common clients keep apart; the contract suite checks what they keep."""

from __future__ import annotations

import pytest

from calmstream.broker.shared.broker import PlanBroker, SharedBroker
from calmstream.broker.shared.reader import ReaderShare
from calmstream.broker.shared.sink import SinkShare
from calmstream.broker.transport import AssignmentChanges, Chunk, Partition, TopicSpec
from calmstream.common.errors import FatalError, MissingTopic, RecoverableError
from tests.support.clock import ManualClock
from tests.support.faulty_broker import FaultyBroker

A, B = Partition("a", 0), Partition("b", 0)


class Setting:
    """Two topics, one shared connection, a clock that stands still."""

    def __init__(self) -> None:
        self.broker = FaultyBroker()
        self.clock = ManualClock()
        self.topics = self.broker.topics()
        self.topics.create([TopicSpec("a", 1), TopicSpec("b", 1)])
        self.shared = SharedBroker(self.broker, "g", self.clock)

    def fill(self, partition: Partition, *values: bytes) -> None:
        sink = self.broker.sink()
        for value in values:
            sink.send(partition.topic, b"k", value, partition=0).wait(1)

    def member(self, partition: Partition, plan: PlanBroker | None = None) -> PlanBroker:
        """Return a plan that reads a partition from its start."""
        plan = plan or self.shared.plan()
        share = plan.group_reader("ignored")
        share.subscribe([partition.topic])
        self.shared.group.turn(0.0)
        assert share.take_changes() == AssignmentChanges(added=frozenset([partition]))
        share.seek(partition, 0)
        share.resume([partition])
        return plan

    def reader(self, partition: Partition) -> ReaderShare:
        """Return a plan's reader of a partition, at its start."""
        reader = self.shared.plan().reader()
        reader.assign([partition])
        reader.seek(partition, 0)
        return reader

    def polled(self, plan: PlanBroker) -> list[bytes | None]:
        self.shared.group.turn(0.0)
        self.shared.group.turn(0.0)
        return [record.value for record in plan.share.poll(0.0)]


def test_each_plan_gets_its_own_records_from_one_membership() -> None:
    setting = Setting()
    one, two = setting.member(A), setting.member(B)
    setting.fill(A, b"1", b"2")
    setting.fill(B, b"3")
    assert setting.polled(one) == [b"1", b"2"]
    assert setting.polled(two) == [b"3"]
    assert len(setting.broker._cluster.group("g")._members) == 1


def test_a_trimmed_log_is_an_error_of_its_plan_and_nothing_is_lost_for_the_others() -> None:
    setting = Setting()
    one, two = setting.member(A), setting.member(B)
    setting.fill(A, b"1", b"2")
    setting.fill(B, b"3", b"4")
    setting.topics.trim({A: 1})
    assert setting.polled(two) == [b"3", b"4"]
    with pytest.raises(FatalError, match="outside the log"):
        one.share.poll(0.0)
    setting.fill(B, b"5")
    assert setting.polled(two) == [b"5"]
    one.share.close(0.0)
    again = one.group_reader("ignored")
    assert again.take_changes() == AssignmentChanges(added=frozenset([A])), (
        "the member kept the partition"
    )
    again.seek(A, 1)
    again.resume([A])
    assert setting.polled(one) == [b"2"]


def test_a_deleted_topic_is_an_error_of_its_plan_only() -> None:
    setting = Setting()
    two = setting.member(B)
    lost = setting.shared.plan()
    share = lost.group_reader("ignored")
    share.subscribe(["missing"])
    setting.fill(B, b"1")
    assert setting.polled(two) == [b"1"]
    with pytest.raises(MissingTopic, match="missing"):
        share.poll(0.0)
    one = setting.member(A)
    setting.topics.delete(["a"])
    setting.fill(B, b"2")
    assert setting.polled(two) == [b"2"]
    assert one.share.assignment() == frozenset()


def test_a_plan_that_is_behind_is_not_read_further_and_the_others_are() -> None:
    setting = Setting()
    slow, quick = setting.member(A), setting.member(B)
    setting.fill(A, *[b"x"] * 12_000)
    for number in range(10):
        setting.fill(B, b"%d" % number)
        assert setting.polled(quick) == [b"%d" % number]
    assert 5000 <= len(slow.share.queue) <= 10_000
    got = 0
    while got < 12_000:
        setting.shared.group.turn(0.0)
        got += len(slow.share.poll(0.0))
    assert got == 12_000


def test_a_plan_that_leaves_gives_its_partitions_up_and_one_that_comes_takes_them() -> None:
    setting = Setting()
    one, two = setting.member(A), setting.member(B)
    one.close()
    setting.shared.group.turn(0.0)
    setting.shared.group.turn(0.0)
    assert setting.shared.group.owned == {B}
    assert two.share.take_changes() == AssignmentChanges()
    again = setting.member(A)
    again.close()
    # The topic changes hands before the group has noticed that it was free.
    later = setting.member(A)
    setting.fill(A, b"1")
    assert setting.polled(later) == [b"1"]
    later.close()
    two.close()
    setting.shared.group.turn(0.0)
    assert setting.shared.group.owned == frozenset()


def test_shares_count_as_polled_only_if_the_group_was() -> None:
    setting = Setting()
    one = setting.member(A)
    setting.clock.advance(30)
    with pytest.raises(RecoverableError, match="not been polled for 30"):
        one.share.poll(0.0)
    setting.shared.group.turn(0.0)
    assert one.share.poll(0.0) == []


def test_records_that_arrive_while_a_share_moves_are_not_handed_out() -> None:
    setting = Setting()
    one = setting.member(A)
    setting.fill(A, b"1", b"2", b"3")
    setting.shared.group.turn(0.0)
    one.share.seek(A, 2)
    assert one.share.position(A) == 2
    assert setting.polled(one) == [b"3"]
    assert one.share.position(A) == 3


def test_a_reader_is_shared_and_an_error_stays_with_its_plan() -> None:
    setting = Setting()
    setting.fill(A, b"1", b"2")
    setting.fill(B, b"3")
    one, two = setting.reader(A), setting.reader(B)
    setting.topics.trim({A: 1})
    two.polled_at = 0.0  # both are read in the poll that fails
    with pytest.raises(FatalError, match="outside the log"):
        one.poll(0.0)
    assert [r.value for r in two.poll(0.0)] == [b"3"]
    one.seek(A, 1)
    assert [r.value for r in one.poll(0.0)] == [b"2"]
    assert two.position(B) == 1
    missing = Partition("missing", 0)
    one.assign([missing])
    one.seek(missing, 0)
    setting.fill(B, b"4")
    with pytest.raises(MissingTopic):
        one.poll(0.0)
    assert [r.value for r in two.poll(0.0)] == [b"4"]


def test_a_reader_that_does_not_poll_holds_few_records_and_misses_none() -> None:
    setting = Setting()
    idle, busy = setting.reader(A), setting.reader(B)
    assert idle.poll(0.0) == []
    setting.fill(A, *[b"x"] * 2000)
    for _ in range(8):
        busy.poll(0.0)
    assert len(idle.queue) < 1000
    setting.clock.advance(60)
    busy.poll(0.0)
    got = 0
    for _ in range(10):
        got += len(idle.poll(0.0))
    assert got == 2000
    assert idle.position(A) == 2000


def test_a_plan_whose_topics_do_not_answer_fills_only_its_share_of_the_sink() -> None:
    setting = Setting()
    sink = setting.shared.sink
    one, two = SinkShare(sink, share_bytes=10), SinkShare(sink, share_bytes=10)
    setting.broker.stall(A)
    stuck = one.send("a", b"", b"x" * 30, partition=0)  # alone, a larger one is accepted
    refused = one.send("a", b"", b"y", partition=0)
    assert refused.done()
    with pytest.raises(RecoverableError, match="no room"):
        refused.wait(1)
    assert two.send("b", b"", b"z", partition=0).wait(1) == 0
    setting.broker.release(A)
    assert stuck.wait(1) == 0
    assert one.send("a", b"", b"y", partition=0).wait(1) == 1
    one.close(1)
    with pytest.raises(FatalError, match="closed"):
        one.send("a", b"", b"y", partition=0)
    assert two.send("b", b"", b"z", partition=0).wait(1) == 1


def test_the_error_that_concerns_nobody_is_everybodys() -> None:
    setting = Setting()
    setting.member(A)

    def fenced(_timeout: float, _records: int) -> list[Chunk]:
        raise FatalError("another client took this membership")

    member = setting.shared.group._member
    assert member is not None
    member.poll_chunks = fenced  # type: ignore[method-assign]
    with pytest.raises(FatalError, match="took this membership"):
        setting.shared.group.turn(0.0)


def test_an_idle_partition_is_looked_at_every_two_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    setting = Setting()
    one = setting.member(A)
    setting.fill(A, b"1")
    assert setting.polled(one) == [b"1"]
    member = setting.shared.group._member
    assert member is not None
    looks: list[Partition] = []
    position = member.position
    monkeypatch.setattr(member, "position", lambda p: looks.append(p) or position(p))
    for _ in range(40):
        setting.clock.advance(0.5)
        setting.shared.group.turn(0.0)
    assert 9 <= len(looks) <= 11
    assert one.share.position(A) == 1
