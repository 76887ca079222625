"""Check a worker's membership in its consumer group: which records it returns, and when."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from calmstream.broker.records import in_chunks
from calmstream.broker.transport import AssignmentChanges, Partition, Record
from calmstream.common.errors import FatalError, InvalidInput, RecoverableError
from calmstream.consumer.runtime.context import StopRequested, TallyContext
from calmstream.consumer.tally.membership import Membership
from tests.support.clock import ManualClock
from tests.support.tally import small_plan
from tests.support.tally_bench import worker_context

A, B = Partition("reports", 0), Partition("reports", 1)


def record(partition: Partition, offset: int) -> Record:
    return Record(partition, offset, 0, True, None, b"")


def polled(member: Membership) -> list[Record]:
    return [record for chunk in member.poll() for record in chunk.records()]


class ScriptedReader:
    """A group reader whose polls and changes are written down beforehand."""

    def __init__(self) -> None:
        self.polls: list[object] = []
        self.changes = AssignmentChanges()
        self.owned: set[Partition] = set()
        self.paused: set[Partition] = set()
        self.sought: dict[Partition, int] = {}

    def subscribe(self, topics: Any) -> None:
        self.topics = topics

    def poll_chunks(self, _timeout: float, _max_records: int) -> Any:
        step = self.polls.pop(0) if self.polls else []
        if isinstance(step, Exception):
            raise step
        return in_chunks(list(step()) if callable(step) else step)  # type: ignore[call-overload]

    def joined(self) -> bool:
        return True

    def take_changes(self) -> Any:
        changes, self.changes = self.changes, AssignmentChanges()
        self.owned = (self.owned - changes.gone) | changes.added
        return changes

    def assignment(self) -> Any:
        return frozenset(self.owned)

    def seek(self, partition: Partition, offset: int) -> None:
        self.sought[partition] = offset

    def pause(self, partitions: Iterable[Partition]) -> None:
        self.paused |= set(partitions)

    def resume(self, partitions: Iterable[Partition]) -> None:
        self.paused -= set(partitions)

    def give(self, *, added: Any = (), gone: Any = ()) -> None:
        self.changes = AssignmentChanges(lost=frozenset(gone), added=frozenset(added))


def context(clock: ManualClock, **settings: object) -> TallyContext:
    return worker_context(small_plan(partitions=2), clock, poll_seconds=0, **settings)


@pytest.fixture
def reader() -> ScriptedReader:
    return ScriptedReader()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def member(reader: ScriptedReader, clock: ManualClock) -> Membership:
    membership = Membership(reader, context(clock, retry_seconds=3.0))
    membership.join(["reports"])
    return membership


def own(member: Membership, reader: ScriptedReader, *partitions: Partition) -> None:
    reader.give(added=partitions)
    member.poll()
    assert member.take_changes().added == set(partitions)
    assert member.activate(dict.fromkeys(partitions, 0)) == set(partitions)


def test_records_of_partitions_that_are_not_restored_never_come_out(
    member: Membership, reader: ScriptedReader
) -> None:
    reader.give(added=[A])
    reader.polls = [[record(A, 0)]]
    assert polled(member) == []


def test_records_polled_with_the_loss_of_their_partition_are_dropped(
    member: Membership, reader: ScriptedReader
) -> None:
    own(member, reader, A, B)
    reader.polls = [lambda: reader.give(gone=[A], added=[A]) or [record(A, 7), record(B, 3)]]
    assert polled(member) == [record(B, 3)]
    change = member.take_changes()
    assert (change.gone, change.added) == ({A}, {A})
    reader.polls = [[record(A, 8)]]
    assert polled(member) == []


def test_records_kept_back_during_a_restore_are_dropped_when_their_partition_goes(
    member: Membership, reader: ScriptedReader, clock: ManualClock
) -> None:
    own(member, reader, A, B)
    clock.advance(2)
    reader.polls = [[record(A, 0), record(B, 0)]]
    member.keep_alive()
    clock.advance(2)
    reader.polls = [lambda: reader.give(gone=[A], added=[A]) or []]
    member.keep_alive()
    assert polled(member) == [record(B, 0)]


def test_keep_alive_polls_with_everything_paused_and_resumes(
    member: Membership, reader: ScriptedReader, clock: ManualClock
) -> None:
    own(member, reader, A)
    paused = []
    clock.advance(2)
    reader.polls = [lambda: paused.append(set(reader.paused)) or []]
    member.keep_alive()
    assert paused == [{A}]
    assert reader.paused == set()
    member.keep_alive()  # too soon for another
    assert len(paused) == 1


def test_a_partition_lost_during_its_restore_is_not_activated(
    member: Membership, reader: ScriptedReader
) -> None:
    reader.give(added=[A, B])
    member.poll()
    member.take_changes()
    reader.give(gone=[A], added=[A])
    member.poll()
    assert member.activate({A: 5, B: 6}) == {B}
    assert reader.sought == {B: 6}
    assert member.take_changes().added == {A}


def test_a_blocked_member_stays_paused_through_activation(
    member: Membership, reader: ScriptedReader
) -> None:
    own(member, reader, A)
    member.block(True)
    reader.paused.add(B)  # as the transport promises for new ones
    own(member, reader, B)
    assert reader.paused == {A, B}
    member.block(False)
    assert reader.paused == set()


def test_a_broker_that_does_not_answer_is_asked_again_until_the_budget_is_spent(
    member: Membership, reader: ScriptedReader
) -> None:
    reader.polls = [RecoverableError("gone fishing")] * 3
    assert [member.poll() for _ in range(4)] == [[]] * 4
    reader.polls = [RecoverableError("gone fishing")] * 100
    with pytest.raises(FatalError, match="gone fishing"):
        list(iter(member.poll, None))
    assert len(reader.polls) > 60


def test_failed_polls_do_not_renew_the_session(reader: ScriptedReader, clock: ManualClock) -> None:
    member = Membership(reader, context(clock, session_seconds=10.0))
    member.join(["reports"])
    member.poll()
    member.guard()
    clock.advance(10.5)
    reader.polls = [RecoverableError("x")]
    member.poll()
    with pytest.raises(FatalError, match="session"):
        member.guard()


def test_only_an_operation_that_may_stop_ends_when_the_worker_is_asked_to_stop(
    reader: ScriptedReader, clock: ManualClock
) -> None:
    given = context(clock)
    member = Membership(reader, given)
    clock.advance(100)
    assert not given.health.live().well
    given.stop.set()
    with pytest.raises(StopRequested):
        member.keep_alive_or_stop()
    member.keep_alive()
    assert given.health.live().well


def test_a_session_is_longer_than_two_polls() -> None:
    message = "SESSION_SECONDS must be at least twice the time of a poll, 0.6 s, not 1 s"
    with pytest.raises(InvalidInput, match=f"^CALMSTREAM_{message}"):
        worker_context(small_plan(), ManualClock(), session_seconds=1.0, poll_seconds=0.6)
