"""Check what only the in-process broker has: a given clock and injected faults."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from calmstream.broker.in_process.log import stored_bytes
from calmstream.broker.transport import AssignmentChanges, Partition, TopicSpec
from calmstream.common.errors import FatalError
from tests.support.batches import Row, batch
from tests.support.clock import ManualClock
from tests.support.faulty_broker import FaultyBroker

WHERE = Partition("t", 0)


def _broker(clock: ManualClock | None = None, **settings: str) -> FaultyBroker:
    broker = FaultyBroker((clock or ManualClock()).now_ms)
    dotted = {key.replace("_", "."): value for key, value in settings.items()}
    broker.topics().create([TopicSpec("t", 1, dotted)])
    return broker


def test_append_times_follow_the_clock_even_backwards() -> None:
    clock = ManualClock()
    broker = _broker(clock, message_timestamp_type="LogAppendTime")
    sink = broker.sink()
    for clock.wall_ms in (1000, 5000, 3000):
        sink.send("t", b"k", b"v").wait(0)
    stamps = [(r.timestamp, r.append_time) for r in broker.records(WHERE)]
    assert stamps == [(1000, True), (5000, True), (3000, True)]


def test_a_reader_moves_past_what_compaction_took_from_before_it() -> None:
    broker = _broker(cleanup_policy="compact")
    sink, reader = broker.sink(), broker.reader()
    for n in range(4):
        sink.send("t", b"k", b"%d" % n)
    reader.assign([WHERE])
    reader.seek(WHERE, 1)
    broker.compact("t", active=0)
    assert [r.offset for r in reader.poll(0)] == [3]
    sink.send("t", b"gone", None)
    broker.compact("t", active=0, tombstones=True)
    assert reader.poll(0) == []
    assert reader.position(WHERE) == 5 == broker.topics().log_ends([WHERE])[WHERE]


def test_a_silent_member_expires_when_another_polls() -> None:
    clock = ManualClock()
    broker = FaultyBroker(session_seconds=10, seconds=clock.monotonic)
    broker.topics().create([TopicSpec("t", 2)])
    first, second = broker.group_reader("g"), broker.group_reader("g")
    for reader in (first, second):
        reader.subscribe(["t"])
        reader.poll(0)
    first.poll(0)
    second.poll(0)
    mine = first.assignment()
    assert len(mine) == len(second.assignment()) == 1
    first.take_changes()
    clock.advance(10.5)
    second.poll(0)
    assert len(second.assignment()) == 2
    first.poll(0)
    changes = first.take_changes()
    assert changes.lost == mine
    assert changes.added == frozenset()  # the other has not given anything up yet


def test_a_deleted_topic_is_revoked_and_its_readers_get_an_error() -> None:
    broker = _broker()
    member, reader = broker.group_reader("g"), broker.reader()
    member.subscribe(["t"])
    member.poll(0)
    member.take_changes()
    reader.assign([WHERE])
    reader.seek(WHERE, 0)
    broker.topics().delete(["t"])
    member.poll(0)
    assert member.take_changes() == AssignmentChanges(revoked=frozenset({WHERE}))
    with pytest.raises(FatalError, match=r"t"):
        reader.poll(0)


@pytest.mark.parametrize("size", [None, 0, 1, 63, 64, 5000, 9000])
@pytest.mark.parametrize("headers", [(), (("reason", b"x" * 64), ("é", b""))])
def test_a_records_size_is_that_of_its_batch_in_kafka(
    size: int | None, headers: Sequence[tuple[str, bytes]]
) -> None:
    value = None if size is None else bytes(size)
    for key in (None, b"", bytes(16), bytes(300)):
        row = Row(value, key, [(name.encode(), content) for name, content in headers])
        assert stored_bytes(key, value, tuple(headers)) == len(batch([row]))
